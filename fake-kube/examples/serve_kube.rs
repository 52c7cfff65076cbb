//! Serves an empty Kubernetes API on loopback and prints where: `KUBECONFIG=… kubectl get bmh`.

use std::{error::Error, io::Write as _, sync::Arc};

use fake_kube::{KubeApi, PORT};
use serde_json::json;
use wire::{Seed, Silent, real::Network};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "kubeconfig".into());
    let net = Network::new(Seed(0), Arc::new(Silent));
    let host = net.host("kube");
    let served = KubeApi::new().serve(host.clone());
    let server = format!("http://{}", net.endpoint(&host, PORT));
    // JSON is YAML.
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "bmsim",
        "clusters": [{ "name": "bmsim", "cluster": { "server": server } }],
        "contexts": [{ "name": "bmsim", "context": { "cluster": "bmsim", "user": "admin", "namespace": "default" } }],
        "users": [{ "name": "admin", "user": {} }],
    });
    std::fs::write(&path, config.to_string())?;
    writeln!(std::io::stdout(), "KUBECONFIG={path} kubectl get bmh")?;
    match served.await {
        Some(ended) => Ok(ended?),
        None => Ok(()),
    }
}
