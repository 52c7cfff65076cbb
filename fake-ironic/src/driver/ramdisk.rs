//! The agent's boot image: fetched from where the node says, and laid out for one machine.
//!
//! The conductor downloads a kernel, ramdisk or disc once and afterwards only asks whether it changed. What a machine
//! boots is text here: a first line that says so, then the kernel with its parameters.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use http::{Method, StatusCode, header};
use wire::{Host, http::Timeouts};

use super::{DriverError, Target, requests::Requests, text_of};
use crate::{
    boot_server::BootServer,
    images::{ImageError, LIMIT_OF_CONNECT},
    settings::Settings,
};

/// The first line of what a simulated machine can boot.
const BOOTABLE: &str = "bmsim ramdisk image 1";

/// Fetches boot images and lays them out.
pub(super) struct Ramdisks {
    settings: Arc<Settings>,
    requests: Requests,
    boot_server: BootServer,
    cache: Mutex<BTreeMap<String, Cached>>,
}

/// A downloaded file.
#[derive(Clone)]
struct Cached {
    /// Of when the server says it is.
    modified: Option<String>,
    bytes: Bytes,
}

/// Where a node's agent comes from.
enum Source<'a> {
    /// A disc that is ready to boot.
    Disc(&'a str),
    /// A kernel and its ramdisk.
    Kernel { kernel: &'a str, ramdisk: &'a str },
}

impl Ramdisks {
    pub(super) fn new(host: Host, settings: Arc<Settings>, boot_server: BootServer) -> Self {
        let read = settings.image.webserver_connection_timeout;
        let requests = Requests::new(&host, Timeouts { connect: read.min(LIMIT_OF_CONNECT), read })
            .telling(settings.release.connection_errors);
        Self { settings, requests, boot_server, cache: Mutex::default() }
    }

    /// Whether the node, or the settings, name an agent to boot.
    pub(super) fn validate(&self, target: &Target) -> Result<(), DriverError> {
        self.source(target).map(drop)
    }

    fn source<'a>(&'a self, target: &'a Target) -> Result<Source<'a>, DriverError> {
        let info = &target.driver_info;
        if let Some(disc) =
            text_of(info, "deploy_iso").filter(|_| target.boot_interface == "redfish-virtual-media")
        {
            return Ok(Source::Disc(disc));
        }
        let conductor = &self.settings.conductor;
        let kernel = text_of(info, "deploy_kernel").or(conductor.deploy_kernel.as_deref());
        let ramdisk = text_of(info, "deploy_ramdisk").or(conductor.deploy_ramdisk.as_deref());
        match (kernel, ramdisk) {
            (Some(kernel), Some(ramdisk)) => Ok(Source::Kernel { kernel, ramdisk }),
            (kernel, ramdisk) => {
                let missing = [(kernel, "'deploy_kernel'"), (ramdisk, "'deploy_ramdisk'")];
                let missing: Vec<_> =
                    missing.iter().filter(|(url, _)| url.is_none()).map(|(_, name)| *name).collect();
                Err(DriverError::Invalid(format!(
                    "Cannot boot the deploy ramdisk. Some parameters were missing in node's driver_info. Missing are: [{}]",
                    missing.join(", ")
                )))
            }
        }
    }

    /// Publishes the disc from which the node's machine boots the agent; returns its URL.
    pub(super) async fn publish_disc(
        &self,
        target: &Target,
        parameters: &BTreeMap<String, String>,
    ) -> Result<String, DriverError> {
        let disc = match self.source(target)? {
            Source::Disc(url) => self.fetch(url).await?,
            Source::Kernel { kernel, ramdisk } => {
                self.fetch(kernel).await?;
                self.fetch(ramdisk).await?;
                format!("{BOOTABLE}\nlinux {kernel}{}\n", command_line(parameters)).into()
            }
        };
        Ok(self.boot_server.publish(&disc_name(target), disc))
    }

    /// Publishes what the node's machine needs to boot the agent from the network.
    pub(super) async fn publish_network_boot(
        &self,
        target: &Target,
        parameters: &BTreeMap<String, String>,
    ) -> Result<(), DriverError> {
        let Source::Kernel { kernel, ramdisk } = self.source(target)? else {
            return Err(DriverError::Invalid("A disc cannot be booted from the network".to_owned()));
        };
        let kernel = self.fetch(kernel).await?;
        let ramdisk = self.fetch(ramdisk).await?;
        let kernel = self.boot_server.publish(&format!("{}/agent.kernel", target.uuid), kernel);
        let ramdisk = self.boot_server.publish(&format!("{}/agent.initramfs", target.uuid), ramdisk);
        for mac in &target.macs {
            let mut parameters = parameters.clone();
            parameters.insert("BOOTIF".to_owned(), format!("01-{}", dashed(mac)));
            let script =
                format!("#!ipxe\nkernel {kernel}{}\ninitrd {ramdisk}\nboot\n", command_line(&parameters));
            self.boot_server.publish(&script_name(mac), script.into());
        }
        Ok(())
    }

    /// Takes back what was published for a node.
    pub(super) fn withdraw(&self, target: &Target) {
        self.boot_server.withdraw(&disc_name(target));
        self.boot_server.withdraw(&format!("{}/agent.kernel", target.uuid));
        self.boot_server.withdraw(&format!("{}/agent.initramfs", target.uuid));
        for mac in &target.macs {
            self.boot_server.withdraw(&script_name(mac));
        }
    }

    /// A file as it is now: downloaded the first time, afterwards only asked for.
    async fn fetch(&self, url: &str) -> Result<Bytes, ImageError> {
        let known = self.cache.lock().unwrap_or_else(PoisonError::into_inner).get(url).cloned();
        if let Some(known) = known {
            let answer = self.requests.fetch(Method::HEAD, url).await;
            let answer = answer.map_err(|failure| ImageError::validation(url, &failure))?;
            if answer.status != StatusCode::OK {
                return Err(ImageError::validation(url, &head_refused(answer.status)));
            }
            if answer.header(header::LAST_MODIFIED) == known.modified.as_deref() {
                return Ok(known.bytes);
            }
        }
        let answer = self.requests.fetch(Method::GET, url).await;
        let answer = answer.map_err(|failure| ImageError::download(url, &failure))?;
        if answer.status != StatusCode::OK {
            let reason = format!(
                "Got HTTP code {} instead of 200 in response to GET request.",
                answer.status.as_u16()
            );
            return Err(ImageError::download(url, &reason));
        }
        let modified = answer.header(header::LAST_MODIFIED).map(str::to_owned);
        let cached = Cached { modified, bytes: answer.body.clone() };
        self.cache.lock().unwrap_or_else(PoisonError::into_inner).insert(url.to_owned(), cached);
        Ok(answer.body)
    }
}

/// The reason for which Ironic does not accept the answer to a HEAD request.
pub(crate) fn head_refused(status: StatusCode) -> String {
    format!("Got HTTP code {} instead of 200 in response to HEAD request.", status.as_u16())
}

fn command_line(parameters: &BTreeMap<String, String>) -> String {
    parameters.iter().map(|(key, value)| format!(" {key}={value}")).collect()
}

fn disc_name(target: &Target) -> String {
    format!("redfish/boot-{}.iso", target.uuid)
}

fn script_name(mac: &str) -> String {
    format!("pxelinux.cfg/{}", dashed(mac))
}

fn dashed(mac: &str) -> String {
    mac.to_ascii_lowercase().replace(':', "-")
}
