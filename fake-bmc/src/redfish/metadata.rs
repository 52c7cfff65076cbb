//! The OData metadata document (DSP0266 section 8.4).

/// The service's metadata document: which schemas its resources are of.
pub(super) fn document() -> String {
    const SCHEMAS: [&str; 20] = [
        "Chassis",
        "ChassisCollection",
        "ComputerSystem",
        "ComputerSystemCollection",
        "Drive",
        "EthernetInterface",
        "EthernetInterfaceCollection",
        "Manager",
        "ManagerCollection",
        "Processor",
        "ProcessorCollection",
        "SecureBoot",
        "Session",
        "SessionCollection",
        "SessionService",
        "SimpleStorage",
        "SimpleStorageCollection",
        "Storage",
        "StorageCollection",
        "VirtualMedia",
    ];
    let mut document = String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <edmx:Edmx xmlns:edmx=\"http://docs.oasis-open.org/odata/ns/edmx\" Version=\"4.0\">\n",
    );
    for schema in SCHEMAS {
        document.push_str(&format!(
            "  <edmx:Reference Uri=\"http://redfish.dmtf.org/schemas/v1/{schema}_v1.xml\">\n    \
             <edmx:Include Namespace=\"{schema}\"/>\n  </edmx:Reference>\n"
        ));
    }
    document.push_str(
        "  <edmx:Reference Uri=\"http://redfish.dmtf.org/schemas/v1/ServiceRoot_v1.xml\">\n    \
         <edmx:Include Namespace=\"ServiceRoot.v1_9_0\"/>\n  </edmx:Reference>\n  \
         <edmx:DataServices>\n    \
         <Schema xmlns=\"http://docs.oasis-open.org/odata/ns/edm\" Namespace=\"Service\">\n      \
         <EntityContainer Name=\"Service\" Extends=\"ServiceRoot.v1_9_0.ServiceContainer\"/>\n    \
         </Schema>\n  </edmx:DataServices>\n</edmx:Edmx>\n",
    );
    document
}
