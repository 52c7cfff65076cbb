//! Starts the operator: its connections, its caches, its loop.

use std::{convert::Infallible, sync::Arc};

use http::{Uri, uri::Scheme};
use wire::Host;

use crate::{
    cluster::{Cluster, plain_client},
    controller::control,
    ironic::{EndpointError, Ironic},
    observe::Outside,
    options::Options,
    reconcile::reconcile,
};

/// Why an operator did not start.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The Kubernetes API's address cannot be used.
    #[error("use {0} as the Kubernetes API: it is not an http:// URL with a host")]
    Kube(Uri),
    /// Ironic's address or credentials cannot be used.
    #[error("prepare requests to Ironic")]
    Ironic(#[from] EndpointError),
}

/// Runs an operator on a host for as long as that lives, against a Kubernetes API that speaks plain HTTP and asks for
/// no authentication. Neither that API nor Ironic need be there yet.
pub async fn run(host: Host, options: Options) -> Result<Infallible, RunError> {
    if options.kube.scheme() != Some(&Scheme::HTTP) || options.kube.host().is_none() {
        return Err(RunError::Kube(options.kube));
    }
    let client = plain_client(&host, &options.kube);
    run_on(host, client, options).await
}

/// Runs an operator on a host against the cluster that a client reaches; [`Options::kube`] is not looked at.
pub async fn run_on(host: Host, client: kube::Client, options: Options) -> Result<Infallible, RunError> {
    let ironic = Ironic::new(&host, &options)?;
    let cluster = Cluster::new(client, &host, &options);
    let concurrency = options.concurrency;
    let outside = Outside::new(host.clone(), cluster.clone(), ironic, Arc::new(options));
    let reconcile = move |key| {
        let outside = outside.clone();
        async move { reconcile(&outside, &key).await }
    };
    Ok(control(&host, &cluster, concurrency, reconcile).await)
}
