//! What there is: versions, hardware types, conductors.

use http::Method;
use serde_json::{Map, Value, json};

use super::{Answer, Api, Outcome, Request, version};
use crate::{
    failure::Failure,
    hardware::{HardwareType, Kind},
    view,
};

impl Api {
    /// `GET /` and `GET /v1`.
    pub(super) fn discover(&self, request: &Request) -> Answer {
        let base = &request.base;
        let maximum = version::Version(self.conductor.settings().release.api_max_version).to_string();
        let this = json!({
            "id": "v1",
            "links": [{ "href": format!("{base}/v1/"), "rel": "self" }],
            "status": "CURRENT",
            "min_version": version::MINIMUM.to_string(),
            "version": maximum,
        });
        if request.is_root {
            return Answer::ok(json!({
                "name": "OpenStack Ironic API",
                "description": "Ironic is an OpenStack project which enables the provision and management of baremetal \
                                machines.",
                "default_version": this.clone(),
                "versions": [this],
            }));
        }
        let collection = |name: &str| {
            json!([
                { "href": format!("{base}/v1/{name}/"), "rel": "self" },
                { "href": format!("{base}/{name}/"), "rel": "bookmark" },
            ])
        };
        Answer::ok(json!({
            "id": "v1",
            "links": [
                { "href": format!("{base}/v1/"), "rel": "self" },
                {
                    "href": "https://docs.openstack.org//ironic/latest/contributor//webapi.html",
                    "rel": "describedby",
                    "type": "text/html",
                },
            ],
            "media_types": { "base": "application/json", "type": "application/vnd.openstack.ironic.v1+json" },
            "nodes": collection("nodes"),
            "ports": collection("ports"),
            "drivers": collection("drivers"),
            "version": this,
        }))
    }

    /// `GET /v1/drivers` and one of them.
    pub(super) fn drivers(&self, request: &Request, rest: &[&str]) -> Outcome {
        if request.method != Method::GET {
            return Err(Failure::no_method());
        }
        match rest {
            [] => {
                request.expect_arguments(&["type", "detail", "fields"])?;
                let detail = request.flag("detail");
                let drivers: Vec<Value> = HardwareType::ALL
                    .into_iter()
                    .map(|hardware| Value::Object(self.driver(request, hardware, detail)))
                    .collect();
                Ok(Answer::ok(json!({ "drivers": drivers })))
            }
            [name] => match HardwareType::of(name) {
                Some(hardware) => Ok(Answer::ok(self.driver(request, hardware, true))),
                None => Err(Failure::not_found(format!(
                    "Could not find the following driver(s) or hardware type(s): {name}."
                ))),
            },
            _ => Err(Failure::no_route()),
        }
    }

    fn driver(&self, request: &Request, hardware: HardwareType, detail: bool) -> Map<String, Value> {
        let name = hardware.name();
        let mut driver = Map::from_iter([
            ("name".to_owned(), Value::from(name)),
            ("hosts".to_owned(), json!([self.conductor.name()])),
            ("links".to_owned(), request.links(&format!("drivers/{name}"))),
            ("properties".to_owned(), request.links(&format!("drivers/{name}/properties"))),
            ("type".to_owned(), Value::from("dynamic")),
        ]);
        if detail {
            for kind in Kind::ALL {
                driver.insert(format!("default_{}", kind.field()), hardware.default(kind).into());
                driver.insert(format!("enabled_{}s", kind.field()), json!(hardware.enabled(kind)));
            }
        }
        driver
    }

    /// `GET /v1/conductors` and one of them.
    pub(super) fn conductors(&self, request: &Request, rest: &[&str]) -> Outcome {
        if request.version < version::Version(49) {
            return Err(Failure::no_route());
        }
        if request.method != Method::GET {
            return Err(Failure::no_method());
        }
        let name = self.conductor.name();
        let conductor = |detail: bool| {
            let mut conductor = json!({
                "hostname": name,
                "conductor_group": "",
                "alive": true,
                "links": request.links(&format!("conductors/{name}")),
            });
            if detail {
                let drivers: Vec<&str> = HardwareType::ALL.into_iter().map(HardwareType::name).collect();
                conductor["drivers"] = json!(drivers);
                conductor["created_at"] = view::moment(self.conductor.started_at());
                conductor["updated_at"] = view::moment(self.conductor.started_at());
            }
            conductor
        };
        match rest {
            [] => Ok(Answer::ok(json!({ "conductors": [conductor(request.flag("detail"))] }))),
            [asked] if *asked == name => Ok(Answer::ok(conductor(true))),
            [asked] => Err(Failure::not_found(format!("Conductor {asked} could not be found."))),
            _ => Err(Failure::no_route()),
        }
    }
}
