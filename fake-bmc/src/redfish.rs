//! Redfish: bytes to requests and back.
//!
//! One handler takes every request: it reads the body, lets the faults have their say, and asks
//! [`service`] for the answer. There is no TLS here.

mod change;
mod message;
mod metadata;
mod path;
mod resource;
mod service;

use std::time::Duration;

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    response::Response,
};
use http::StatusCode;
use wire::{Host, http::Fate};

use crate::{
    bmc::Bmc,
    fault::{Fault, Place, Work},
};
use service::{Answer, Surroundings};

/// The port that Redfish without TLS is served on.
pub const PORT: u16 = 80;

/// The longest body that is read. The largest real request, a full BIOS configuration, is far smaller.
const LONGEST_BODY: usize = 1 << 20;

/// What the handler needs.
#[derive(Clone)]
struct Server {
    bmc: Bmc,
    host: Host,
}

/// The service of a BMC, as it runs on a host.
pub(crate) fn router(bmc: Bmc, host: Host) -> Router {
    Router::new().fallback(handle).with_state(Server { bmc, host })
}

async fn handle(State(server): State<Server>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let Ok(body) = axum::body::to_bytes(body, LONGEST_BODY).await else {
        return respond(service::too_large());
    };
    let strike = server.strike(&head, &body);
    let (answer, fate) = match strike {
        None => (server.answer(&head, &body), None),
        Some(Strike::Stall(work)) => {
            server.work(work, &head, &body);
            std::future::pending().await
        }
        Some(Strike::Status(status, work)) => {
            server.work(work, &head, &body);
            (service::general(status), None)
        }
        Some(Strike::Reset(work)) => {
            server.work(work, &head, &body);
            (service::general(StatusCode::SERVICE_UNAVAILABLE), Some(Fate::Reset))
        }
        Some(Strike::ResetAfter(bytes)) => (server.answer(&head, &body), Some(Fate::ResetAfter(bytes))),
        Some(Strike::Truncate(bytes)) => {
            let mut answer = server.answer(&head, &body);
            answer.body = answer.body.truncated(usize::try_from(bytes).unwrap_or(usize::MAX));
            (answer, None)
        }
        Some(Strike::Slow(wait)) => {
            let answer = server.answer(&head, &body);
            server.host.sleep(wait).await;
            (answer, None)
        }
    };
    let mut response = respond(answer);
    if let Some(fate) = fate {
        response.extensions_mut().insert(fate);
    }
    response
}

/// What a fault does to a request.
enum Strike {
    Stall(Work),
    Status(StatusCode, Work),
    Reset(Work),
    ResetAfter(u64),
    Truncate(u64),
    Slow(Duration),
}

impl Server {
    fn strike(&self, head: &http::request::Parts, body: &[u8]) -> Option<Strike> {
        let request = read(head, body);
        self.bmc.with(|controller, _| {
            let seen = service::seen(&request, self.bmc.system_id());
            match controller.faults.strike(Place::Http, &seen)? {
                Fault::Stall { work, .. } => Some(Strike::Stall(*work)),
                Fault::Status { code, work, .. } => Some(Strike::Status((*code).into(), *work)),
                Fault::Reset { bytes: None, work, .. } => Some(Strike::Reset(*work)),
                Fault::Reset { bytes: Some(bytes), .. } => Some(Strike::ResetAfter(*bytes)),
                Fault::Truncate { bytes, .. } => Some(Strike::Truncate(*bytes)),
                Fault::Slow { seconds, .. } => Some(Strike::Slow(Duration::from_secs(*seconds))),
                Fault::PasswordChanged { .. }
                | Fault::PowerIgnored { .. }
                | Fault::SoftOffIgnored {}
                | Fault::BootOverrideDropped { .. }
                | Fault::MediaRefused { .. }
                | Fault::IpmiSilent {}
                | Fault::IpmiCompletion { .. } => None,
            }
        })
    }

    fn answer(&self, head: &http::request::Parts, body: &[u8]) -> Answer {
        let request = read(head, body);
        let fresh = || self.host.uuid("redfish-session");
        self.bmc.with(|controller, now| {
            let around = Surroundings {
                now,
                date: self.host.date(),
                name: self.bmc.name(),
                id: self.bmc.system_id(),
                fresh: &fresh,
            };
            service::answer(controller, &request, &around)
        })
    }

    /// Carries a request out whose answer will be lost.
    fn work(&self, work: Work, head: &http::request::Parts, body: &[u8]) {
        match work {
            Work::Skipped => {}
            Work::Done => drop(self.answer(head, body)),
        }
    }
}

fn read<'a>(head: &'a http::request::Parts, body: &'a [u8]) -> service::Request<'a> {
    service::Request {
        method: &head.method,
        path: head.uri.path(),
        query: head.uri.query(),
        headers: &head.headers,
        body,
    }
}

fn respond(answer: Answer) -> Response {
    let Answer { status, headers, body } = answer;
    let mut response = Response::new(Body::from(body.into_bytes()));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}
