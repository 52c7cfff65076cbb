//! Starts the operator: its connections, its caches, its loop.

use std::{convert::Infallible, sync::Arc};

use http::{Uri, uri::Scheme};
use wire::{Host, Scope};

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

/// Runs an operator on a host, against a Kubernetes API that speaks plain HTTP and asks for no authentication. Neither
/// that API nor Ironic need be there yet. Ends only when it cannot start; dropping the future ends it as a kill ends a
/// process.
pub async fn run(host: Host, options: Options) -> Result<Infallible, RunError> {
    if options.kube.scheme() != Some(&Scheme::HTTP) || options.kube.host().is_none() {
        return Err(RunError::Kube(options.kube));
    }
    let process = Process::of(&host);
    let client = plain_client(&process.host, &options.kube);
    operate(&process.host, client, options).await
}

/// The same against the cluster that a client reaches; [`Options::kube`] is not looked at.
pub async fn run_on(host: Host, client: kube::Client, options: Options) -> Result<Infallible, RunError> {
    let process = Process::of(&host);
    operate(&process.host, client, options).await
}

async fn operate(host: &Host, client: kube::Client, options: Options) -> Result<Infallible, RunError> {
    let ironic = Ironic::new(host, &options)?;
    let cluster = Cluster::new(client, host, &options);
    let concurrency = options.concurrency;
    let outside = Outside::new(host.clone(), cluster.clone(), ironic, Arc::new(options));
    let reconcile = move |key| {
        let outside = outside.clone();
        async move { reconcile(&outside, &key).await }
    };
    Ok(control(host, &cluster, concurrency, reconcile).await)
}

/// A host as one process sees it: what was spawned through it ends with it.
struct Process {
    host: Host,
    scope: Scope,
}

impl Process {
    fn of(host: &Host) -> Self {
        let (host, scope) = host.scoped();
        Self { host, scope }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.scope.end();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use wire::Seed;

    use super::*;
    use crate::cluster::fixture::{Api, bare_metal_host};

    #[test]
    fn dropping_an_operator_ends_all_that_it_does() {
        engine::simulate(Seed(1), |net| async move {
            let (api, host) = (Api::start(&net.host("kube")), net.host("operator"));
            api.put("baremetalhosts", "host-0", bare_metal_host());
            let (kube, ironic) = ("http://kube", "http://ironic:6385/v1/");
            let options = Options::new(kube.parse().expect("a URL"), ironic.parse().expect("a URL"));
            let hour = Duration::from_secs(3600);
            // It waits for Ironic for ever, and asks for the host again and again meanwhile.
            assert!(wire::within(hour, run(host.clone(), options)).await.is_none());
            let finalizers = &api.get("baremetalhosts", "host-0")["metadata"]["finalizers"];
            assert_eq!(finalizers, &serde_json::json!(["baremetalhost.metal3.io"]));
            api.take_requests();
            api.end_watches(true);
            api.change("baremetalhosts", "host-0", |host| {
                host["metadata"]["generation"] = serde_json::json!(2)
            });
            host.sleep(hour).await;
            assert_eq!(api.take_requests(), [""; 0]);
        });
    }

    #[test]
    fn addresses_that_cannot_be_used_are_refused_at_the_start() {
        engine::simulate(Seed(1), |net| async move {
            for (kube, ironic, refused) in [
                ("https://kube", "http://ironic/v1/", "use https://kube/ as the Kubernetes API"),
                ("/kube", "http://ironic/v1/", "use /kube as the Kubernetes API"),
                ("http://kube", "https://ironic/v1/", "prepare requests to Ironic"),
            ] {
                let options = Options::new(kube.parse().expect("a URL"), ironic.parse().expect("a URL"));
                let error = run(net.host("operator"), options).await.expect_err("it is unusable");
                assert!(error.to_string().starts_with(refused), "{error}");
            }
        });
    }
}
