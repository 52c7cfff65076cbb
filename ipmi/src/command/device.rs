//! Who a BMC is: Get Device ID and Get System GUID (20.1, 22.14).

use super::Command;
use crate::{DecodeError, NetFn, read::Reader};

/// Get Device ID (20.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GetDeviceId;

impl Command for GetDeviceId {
    const NET_FN: NetFn = NetFn::APP;
    const CODE: u8 = 0x01;
    type Answer = DeviceId;

    fn encode(&self) -> Vec<u8> {
        Vec::new()
    }

    fn answer(data: &[u8]) -> Result<DeviceId, DecodeError> {
        let mut reader = Reader::new(data);
        let [device, revision, major, minor, version, support] = reader.array()?;
        let [low, middle, high] = reader.array()?;
        Ok(DeviceId {
            device,
            revision,
            firmware: (major, minor),
            version,
            support,
            manufacturer: u32::from_le_bytes([low, middle, high, 0]),
            product: reader.u16()?,
            // Old BMCs leave these out.
            auxiliary: reader.array().ok(),
        })
    }
}

/// What kind of BMC it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceId {
    /// The vendor's number of the kind.
    pub device: u8,
    /// Its revision in the low four bits; bit 7: it has sensor records.
    pub revision: u8,
    /// The firmware's major version (bit 7: it can't work yet) and minor version (two decimal digits, BCD).
    pub firmware: (u8, u8),
    /// The version of IPMI, BCD with the digits swapped: 0x02 is 2.0.
    pub version: u8,
    /// What else it can do (bits of byte 7 of the answer).
    pub support: u8,
    /// The vendor's enterprise number, 20 bits.
    pub manufacturer: u32,
    /// The vendor's number of the product.
    pub product: u16,
    /// More about the firmware.
    pub auxiliary: Option<[u8; 4]>,
}

impl DeviceId {
    /// The answer's data.
    pub fn encode(&self) -> Vec<u8> {
        let mut data =
            vec![self.device, self.revision, self.firmware.0, self.firmware.1, self.version, self.support];
        data.extend_from_slice(&self.manufacturer.to_le_bytes()[..3]);
        data.extend(self.product.to_le_bytes());
        data.extend(self.auxiliary.into_iter().flatten());
        data
    }
}

/// Get System GUID (22.14): the machine's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GetSystemGuid;

impl Command for GetSystemGuid {
    const NET_FN: NetFn = NetFn::APP;
    const CODE: u8 = 0x37;
    type Answer = [u8; 16];

    fn encode(&self) -> Vec<u8> {
        Vec::new()
    }

    fn answer(data: &[u8]) -> Result<[u8; 16], DecodeError> {
        Reader::new(data).array()
    }
}
