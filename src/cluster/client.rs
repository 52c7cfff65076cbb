//! kube's client on the wire's network.

use std::time::Duration;

use http::Uri;
use hyper_util::{client::legacy, rt::TokioTimer};
use kube::client::{ClientBuilder, middleware::BaseUriLayer};
use tower::ServiceBuilder;
use wire::{Host, http::Connector};

/// How long a connection to the API may take to come about, as with kube's own client.
const CONNECT: Duration = Duration::from_secs(30);

/// How the operator names itself to the API.
const USER_AGENT: http::HeaderValue =
    http::HeaderValue::from_static(concat!("baremetal-operator/", env!("CARGO_PKG_VERSION")));

/// A client for a Kubernetes API that speaks plain HTTP and asks for no authentication. Must be called within a tokio
/// runtime.
pub fn plain_client(host: &Host, api: &Uri) -> kube::Client {
    let connector = Connector { host: host.clone(), limit: Some(CONNECT) };
    let service = legacy::Client::builder(wire::http::Executor(host.clone()))
        .pool_timer(TokioTimer::new())
        .build::<_, kube::client::Body>(connector);
    let service = ServiceBuilder::new()
        .layer(BaseUriLayer::new(api.clone()))
        .map_request(|mut request: http::Request<_>| {
            request.headers_mut().insert(http::header::USER_AGENT, USER_AGENT);
            request
        })
        .service(service);
    ClientBuilder::new(service, "default").build()
}
