//! The operator as a program: on a real cluster, by kubeconfig or from within a pod.
//!
//! Flags and environment have upstream's names where upstream has them. Exits with 2 when it was told something that
//! it cannot use, and with 1 when it cannot go on.

use std::{
    env, fs,
    io::{self, IsTerminal as _},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use baremetal_operator::{
    RunError,
    options::{Credentials, Options},
};
use clap::Parser;
use http::Uri;
use miette::{Context as _, IntoDiagnostic as _, Report, miette};
use rand::TryRng as _;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

/// Manages bare-metal machines as Kubernetes resources, through Ironic.
///
/// The cluster is found as kubectl finds it: KUBECONFIG, ~/.kube/config, or the pod's service account.
#[derive(Debug, Parser)]
#[command(version, name = "baremetal-operator")]
struct Arguments {
    /// The only namespace to look at. Looks at all when empty
    #[arg(long, env = "WATCH_NAMESPACE", default_value = "", hide_default_value = true)]
    namespace: String,

    /// Where Ironic's API is, with its version path, e.g. http://ironic:6385/v1/
    #[arg(long, env = "IRONIC_ENDPOINT")]
    ironic_endpoint: Uri,

    /// The directory that holds ironic/username and ironic/password. Without them Ironic is asked without
    /// authentication
    #[arg(long, env = "METAL3_AUTH_ROOT_DIR", default_value = "/opt/metal3/auth")]
    auth_root_dir: PathBuf,

    /// The kernel of the deploy ramdisk
    #[arg(long, env = "DEPLOY_KERNEL_URL", default_value = "", hide_default_value = true)]
    deploy_kernel_url: String,

    /// The deploy ramdisk
    #[arg(long, env = "DEPLOY_RAMDISK_URL", default_value = "", hide_default_value = true)]
    deploy_ramdisk_url: String,

    /// The deploy ramdisk as an ISO image, for virtual media
    #[arg(long, env = "DEPLOY_ISO_URL", default_value = "", hide_default_value = true)]
    deploy_iso_url: String,

    /// How many hosts are worked on at once. The number of processors, at least 2 and at most 8, when 0
    #[arg(long, env = "BMO_CONCURRENCY", default_value_t = 0)]
    controller_concurrency: usize,

    /// After how many failures a host is no longer provisioned with the same image. Never gives up when 0
    #[arg(long, default_value_t = 5)]
    max_provisioning_retries: u32,

    /// How many hosts may be busy in Ironic at once, those with virtual media not counted
    #[arg(long, env = "PROVISIONING_LIMIT", default_value_t = 20)]
    provisioning_limit: usize,

    /// Requests a second to the Kubernetes API
    #[arg(long, default_value_t = 20)]
    kube_api_qps: u32,

    /// How many requests to the Kubernetes API may be made at once after a quiet time
    #[arg(long, default_value_t = 30)]
    kube_api_burst: u32,

    /// How long one request to Ironic may take: seconds, or with a unit as in 1m30s
    #[arg(long, env = "IRONIC_CLIENT_TIMEOUT", default_value = "30s", value_parser = duration)]
    ironic_client_timeout: Duration,

    /// For how long Ironic that was found ready is not asked again: seconds, or with a unit
    #[arg(long, env = "IRONIC_CLIENT_CACHE_TTL", default_value = "5s", value_parser = duration)]
    ironic_client_cache_ttl: Duration,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // kube's client logs what it then also returns as an error, and bodies that it cannot read, which may be Secrets.
    let asked = env::var("RUST_LOG").unwrap_or_else(|_| "info".to_owned());
    let filter = EnvFilter::new(format!("{asked},kube_client=off"));
    let colours = io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours).with_writer(io::stderr).init();

    let (client, options) = match prepare(arguments).await {
        Ok(prepared) => prepared,
        Err(report) => return complain(&report, UNUSABLE),
    };
    match operate(client, options).await {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => {
            complain(&Report::from_err(error).wrap_err("failed to start the operator"), UNUSABLE)
        }
        Err(report) => complain(&report, 1),
    }
}

/// The exit code for what cannot be used; clap's own is the same.
const UNUSABLE: u8 = 2;

fn complain(report: &Report, code: u8) -> ExitCode {
    eprintln!("{report:?}");
    ExitCode::from(code)
}

/// Works until it is told to stop. The inner error is about the options, the outer about this machine.
async fn operate(client: kube::Client, options: Options) -> Result<Result<(), RunError>, Report> {
    let seed = rand::rngs::SysRng
        .try_next_u64()
        .into_diagnostic()
        .wrap_err("failed to get a seed from the system")?;
    let host = wire::real::host(&name(), wire::Seed(seed));
    let listening = "failed to listen for signals";
    let mut terminate = signal(SignalKind::terminate()).into_diagnostic().wrap_err(listening)?;
    tokio::select! {
        biased;
        _ = terminate.recv() => {}
        interrupted = tokio::signal::ctrl_c() => interrupted.into_diagnostic().wrap_err(listening)?,
        Err(error) = baremetal_operator::run_on(host, client, options) => return Ok(Err(error)),
    }
    tracing::info!("told to stop");
    Ok(Ok(()))
}

/// How this process calls itself: its pod's name, if it has one.
fn name() -> String {
    env::var("HOSTNAME")
        .ok()
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "baremetal-operator".to_owned())
}

/// Makes of what was told what the operator needs.
async fn prepare(told: Arguments) -> Result<(kube::Client, Options), Report> {
    let config = kube::Config::infer()
        .await
        .into_diagnostic()
        .wrap_err("failed to find a cluster: there is no usable kubeconfig, and this is no pod")?;
    let mut options = Options::new(config.cluster_url.clone(), told.ironic_endpoint);
    let client = kube::Client::try_from(config)
        .into_diagnostic()
        .wrap_err("failed to make a client of the cluster")?;

    if told.namespace.contains(',') {
        return Err(miette!(
            "failed to use the namespaces {:?}: it is one, or, when empty, all",
            told.namespace
        ));
    }
    if told.deploy_kernel_url.is_empty() != told.deploy_ramdisk_url.is_empty() {
        return Err(miette!(
            "failed to use a deploy ramdisk: DEPLOY_KERNEL_URL and DEPLOY_RAMDISK_URL go together"
        ));
    }
    options.namespace = filled(told.namespace);
    options.credentials = credentials(&told.auth_root_dir.join("ironic"))?;
    options.deploy_kernel_url = filled(told.deploy_kernel_url);
    options.deploy_ramdisk_url = filled(told.deploy_ramdisk_url);
    options.deploy_iso_url = filled(told.deploy_iso_url);
    options.concurrency = match told.controller_concurrency {
        0 => std::thread::available_parallelism().map_or(2, |processors| processors.get().clamp(2, 8)),
        wanted => wanted,
    };
    options.max_provisioning_retries = told.max_provisioning_retries;
    options.provisioning_limit = told.provisioning_limit;
    options.kube_api_qps = told.kube_api_qps;
    options.kube_api_burst = told.kube_api_burst;
    options.ironic_timeout = told.ironic_client_timeout;
    options.ironic_cache = told.ironic_client_cache_ttl;
    Ok((client, options))
}

fn filled(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

/// The credentials in a directory; none if there is no such directory.
fn credentials(directory: &Path) -> Result<Option<Credentials>, Report> {
    if !directory.exists() {
        return Ok(None);
    }
    let read = |file: &str| {
        let path = directory.join(file);
        let text = fs::read_to_string(&path).into_diagnostic();
        text.map(|text| text.trim().to_owned()).wrap_err_with(|| format!("failed to read {}", path.display()))
    };
    Ok(Some(Credentials { username: read("username")?, password: read("password")? }))
}

/// Reads seconds, or a number with a unit.
fn duration(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.parse() {
        return Ok(Duration::from_secs(seconds));
    }
    let signed: jiff::SignedDuration = text.parse().map_err(|error: jiff::Error| error.to_string())?;
    Duration::try_from(signed).map_err(|_| "it must not be negative".to_owned())
}
