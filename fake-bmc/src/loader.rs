//! What a firmware and a BMC get over the network at boot.

use std::time::Duration;

use base64::Engine as _;
use bytes::Bytes;
use http::header;
use wire::{
    Host,
    http::{Client, Timeouts},
};

use crate::{
    MacAddress,
    image::{self, Ramdisk},
    machine::{Load, Medium},
};

/// The longest image that is read: those here are text.
const LONGEST: usize = 1 << 20;

/// How long one file may take in all.
const PATIENCE: Duration = Duration::from_secs(300);

/// Why nothing was loaded, for the journal.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("use {0:?} as a URL")]
    Url(String),
    #[error("{0}")]
    Http(#[from] wire::http::Error),
    #[error("get the file: the server answered {0}")]
    Status(http::StatusCode),
    #[error("get the file within {PATIENCE:?}")]
    Slow,
    #[error("read the file: it is too long")]
    TooLong,
    #[error("{0}")]
    Unbootable(#[from] image::Unbootable),
}

/// Where things are got from and through.
pub(crate) struct Loader {
    /// The BMC's network, through which its virtual media come; `None` while the BMC is down.
    pub(crate) bmc_host: Option<Host>,
    /// The machine's own network.
    pub(crate) machine_host: Host,
    /// The boot server, as `host` or `host:port`.
    pub(crate) boot_server: Option<String>,
}

impl Loader {
    /// Loads what a firmware wants, or says why it could not, as a fragment of a sentence.
    pub(crate) async fn load(self, what: Load) -> Result<Ramdisk, String> {
        let loaded = match what {
            Load::Medium(medium) => {
                let lost = || "read the virtual medium: the BMC is gone".to_owned();
                let host = self.bmc_host.ok_or_else(lost)?;
                let task = host.spawn(load_medium(host.clone(), medium));
                task.await.ok_or_else(lost)?
            }
            Load::Http(url) => load_image(&self.machine_host, &url, None).await,
            Load::Pxe(mac) => match self.boot_server {
                Some(server) => load_by_pxe(&self.machine_host, &server, mac).await,
                None => return Err("find a boot server".to_owned()),
            },
        };
        loaded.map_err(|failure| failure.to_string())
    }
}

async fn load_medium(host: Host, medium: Medium) -> Result<Ramdisk, Failure> {
    load_image(&host, &medium.image, medium.login).await
}

async fn load_image(host: &Host, url: &str, login: Option<(String, String)>) -> Result<Ramdisk, Failure> {
    let body = get(host, url, login).await?;
    Ok(image::read_image(&body, url)?)
}

async fn load_by_pxe(host: &Host, server: &str, mac: MacAddress) -> Result<Ramdisk, Failure> {
    let script = get(host, &format!("http://{server}/pxelinux.cfg/{}", mac.dashed()), None).await?;
    let script = image::read_script(&script)?;
    let kernel = get(host, &script.kernel, None).await?;
    if !image::is_bootable(&kernel) {
        return Err(image::Unbootable::NotAnImage.into());
    }
    for initrd in &script.initrds {
        get(host, initrd, None).await?;
    }
    Ok(Ramdisk { url: script.kernel, parameters: script.parameters })
}

async fn get(host: &Host, url: &str, login: Option<(String, String)>) -> Result<Bytes, Failure> {
    wire::within(PATIENCE, download(host, url, login)).await.ok_or(Failure::Slow)?
}

async fn download(host: &Host, url: &str, login: Option<(String, String)>) -> Result<Bytes, Failure> {
    let bad_url = || Failure::Url(crate::machine::without_login(url));
    let uri: http::Uri = url.parse().map_err(|_| bad_url())?;
    if uri.scheme_str() != Some("http") || uri.host().is_none() {
        return Err(bad_url());
    }
    let mut request = http::Request::get(uri).body(Bytes::new()).map_err(|_| bad_url())?;
    if let Some((username, password)) = login {
        let token = base64::engine::general_purpose::STANDARD.encode(format!("{username}:{password}"));
        let value = header::HeaderValue::from_str(&format!("Basic {token}")).map_err(|_| bad_url())?;
        request.headers_mut().insert(header::AUTHORIZATION, value);
    }
    let (head, mut body) =
        Client::without_keep_alive(host, Timeouts::default()).open(request).await?.into_parts();
    if head.status != http::StatusCode::OK {
        return Err(Failure::Status(head.status));
    }
    let mut bytes = Vec::new();
    while let Some(piece) = body.next().await? {
        bytes.extend_from_slice(&piece);
        if bytes.len() > LONGEST {
            return Err(Failure::TooLong);
        }
    }
    Ok(bytes.into())
}
