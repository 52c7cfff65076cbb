//! Checks the world: unique names, images that exist, initial states that can be reached.

use std::collections::BTreeMap;

use fake_ironic::settings::Settings;
use toml::Spanned;

use super::File;
use crate::scenario::{
    mistake::Mistake,
    plan::{
        self, HostPlan, ImageCachePlan, ImagePlan, ImageRef, Initial, NetworkPlan, Password, Plan, bmc_name,
    },
    raw, time,
};

/// What a host's image may be at most: it is held in memory, once for each world.
const LARGEST_IMAGE: u64 = 64 << 20;

/// An image needs no real size: what is copied and compared is the same, whatever its length.
const USUAL_IMAGE: u64 = 64 << 10;

/// The world that a scenario describes.
pub(super) fn plan(file: &File<'_>, raw: &raw::Scenario) -> Result<Plan, Mistake> {
    let mut names = Names::new(file);
    let image_caches = raw.image_cache.iter().map(|cache| image_cache(file, &mut names, cache.get_ref()));
    let image_caches = image_caches.collect::<Result<Vec<_>, _>>()?;
    let mut macs = BTreeMap::new();
    let mut hosts = Vec::new();
    for (index, raw) in raw.host.iter().enumerate() {
        hosts.push(host(file, &mut names, &mut macs, &image_caches, index, raw)?);
    }
    let namespace = match &raw.namespace {
        Some(written) => {
            label(file, written)?;
            written.get_ref().clone()
        }
        None => "metal3".to_owned(),
    };
    let network = raw.network.as_ref().map(|raw| network(file, raw)).transpose()?.unwrap_or_default();
    let ironic = raw.ironic.as_ref().map(|raw| ironic(file, raw)).transpose()?.unwrap_or_default();
    Ok(Plan { hosts, image_caches, network, ironic, namespace })
}

fn ironic(file: &File<'_>, written: &Spanned<Settings>) -> Result<Settings, Mistake> {
    let settings = written.get_ref();
    if settings.redfish.connection_attempts == 0 {
        return Err(file
            .at(written, "with `connection_attempts = 0` Ironic never speaks to a BMC")
            .help("1 is the least"));
    }
    Ok(settings.clone())
}

/// Names on the network, each of which may be taken once.
struct Names<'a> {
    file: &'a File<'a>,
    taken: BTreeMap<String, String>,
}

impl<'a> Names<'a> {
    fn new(file: &'a File<'a>) -> Self {
        let taken =
            plan::COMPONENTS.iter().map(|name| ((*name).to_owned(), "a component".to_owned())).collect();
        Self { file, taken }
    }

    fn take(&mut self, written: &Spanned<String>, name: String, whose: &str) -> Result<(), Mistake> {
        match self.taken.get(&name) {
            Some(other) => Err(self
                .file
                .at(written, format!("the name `{name}` is taken"))
                .help(format!("it is already {other} of this world; names on the network are unique"))),
            None => {
                self.taken.insert(name, whose.to_owned());
                Ok(())
            }
        }
    }
}

/// Names are labels of DNS, as Kubernetes wants them.
fn label(file: &File<'_>, written: &Spanned<String>) -> Result<(), Mistake> {
    let name = written.get_ref();
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let fine = name.chars().all(inner) && !name.starts_with('-') && !name.ends_with('-');
    // Four more make a BMC's name of it.
    if fine && (1..=59).contains(&name.len()) {
        return Ok(());
    }
    Err(file
        .at(written, format!("`{name}` cannot be a name on the network"))
        .help("use 1 to 59 lower-case letters, digits and hyphens, no hyphen first or last"))
}

fn image_cache(
    file: &File<'_>,
    names: &mut Names<'_>,
    raw: &raw::ImageCache,
) -> Result<ImageCachePlan, Mistake> {
    label(file, &raw.name)?;
    names.take(&raw.name, raw.name.get_ref().clone(), "an image cache")?;
    let mut images: Vec<ImagePlan> = Vec::new();
    for image in &raw.images {
        let image = image.get_ref();
        let name = image.name.get_ref();
        let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if name.is_empty() || name.starts_with('.') || !name.chars().all(fine) {
            return Err(file
                .at(&image.name, format!("`{name}` cannot be a file's name"))
                .help("use letters, digits, dots, hyphens and underscores, no dot first"));
        }
        if images.iter().any(|other| other.name == *name) {
            return Err(file.at(&image.name, format!("there are two images `{name}` in this cache")));
        }
        images.push(ImagePlan {
            name: name.clone(),
            size: image.size.as_ref().map_or(Ok(USUAL_IMAGE), |written| size(file, written))?,
            checksum: image.checksum.unwrap_or_default(),
        });
    }
    Ok(ImageCachePlan { name: raw.name.get_ref().clone(), images })
}

fn size(file: &File<'_>, written: &Spanned<String>) -> Result<u64, Mistake> {
    match time::parse_size(written.get_ref()) {
        None => Err(file
            .at(written, format!("`{}` is not a size", written.get_ref()))
            .help("sizes are written like `64KiB` or `2MB`")),
        Some(0) => Err(file.at(written, "an empty image cannot be told from none")),
        Some(size) if size > LARGEST_IMAGE => Err(file
            .at(written, "an image of this size does not fit into memory many times")
            .help("64MiB is the most; a small image shows the same")),
        Some(size) => Ok(size),
    }
}

fn host(
    file: &File<'_>,
    names: &mut Names<'_>,
    macs: &mut BTreeMap<String, String>,
    caches: &[ImageCachePlan],
    index: usize,
    written: &Spanned<raw::Host>,
) -> Result<HostPlan, Mistake> {
    let raw = written.get_ref();
    let name = raw.name.get_ref();
    label(file, &raw.name)?;
    names.take(&raw.name, name.clone(), "a host")?;
    names.take(&raw.name, bmc_name(name), &format!("the BMC of `{name}`"))?;

    let mac = raw.mac.as_ref().map_or_else(|| Ok(made_up_mac(index)), |written| mac(file, written))?;
    if let Some(other) = macs.insert(mac.clone(), name.clone()) {
        return Err(match &raw.mac {
            Some(written) => file.at(written, format!("`{other}` has this MAC address already")),
            None => file
                .at(&raw.name, format!("`{other}` has the MAC address {mac} that this host would get"))
                .help("give this host a `mac` of its own"),
        });
    }

    let image = raw.image.as_ref().map(|written| image(file, caches, written)).transpose()?;
    let initial = raw.state.as_ref().map_or_else(Initial::default, |state| *state.get_ref());
    let online = raw.online.as_ref().is_none_or(|online| *online.get_ref());
    let at_state = raw.state.as_ref().map_or(raw.name.span(), Spanned::span);
    match initial {
        Initial::Provisioned if image.is_none() => {
            return Err(file
                .at_bytes(at_state, "a host without an image cannot be `provisioned`")
                .help("give the host an `image`, or make it `externally-provisioned`"));
        }
        Initial::Provisioned if !online => {
            return Err(file
                .at_bytes(at_state, "a host that is not online is never provisioned")
                .help("let it begin online, and set `online` to false by an `edit` at the beginning"));
        }
        Initial::Available if image.is_some() && online => {
            return Err(file.at_bytes(at_state, "a host with an image does not stay `available`").help(
                "let it begin without, and set the `image` by an `edit` when it is to be provisioned",
            ));
        }
        Initial::New
        | Initial::Absent
        | Initial::Available
        | Initial::Provisioned
        | Initial::ExternallyProvisioned => {}
    }
    let bmc = raw.bmc.unwrap_or(plan::BmcKind::RedfishVirtualmedia);
    let mut made_up = format!("password-of-{name}");
    if bmc == plan::BmcKind::Ipmi {
        ipmi_takes(file, raw.username.as_ref(), "user's name", IPMI_USERNAME)?;
        ipmi_takes(file, raw.password.as_ref(), "password", IPMI_PASSWORD)?;
        made_up.truncate(IPMI_PASSWORD);
    }
    let text = |written: &Option<Spanned<String>>| written.as_ref().map(|written| written.get_ref().clone());
    Ok(HostPlan {
        name: name.clone(),
        bmc,
        mac,
        username: text(&raw.username).unwrap_or_else(|| "admin".to_owned()),
        password: Password::new(text(&raw.password).unwrap_or(made_up)),
        online,
        consumer: raw.consumer.clone(),
        image,
        initial,
    })
}

/// IPMI has fields of these lengths, in bytes (IPMI 2.0, 22.28 and 22.30).
const IPMI_USERNAME: usize = 16;
const IPMI_PASSWORD: usize = 20;

fn ipmi_takes(
    file: &File<'_>,
    written: Option<&Spanned<String>>,
    what: &str,
    most: usize,
) -> Result<(), Mistake> {
    match written {
        Some(written) if written.get_ref().len() > most => Err(file
            .at(written, format!("this {what} has {} bytes", written.get_ref().len()))
            .help(format!("IPMI has room for {most}"))),
        Some(_) | None => Ok(()),
    }
}

/// Locally administered addresses, as virtual machines have them.
fn made_up_mac(index: usize) -> String {
    let [.., a, b, c] = index.to_be_bytes();
    format!("52:54:00:{a:02x}:{b:02x}:{c:02x}")
}

fn mac(file: &File<'_>, written: &Spanned<String>) -> Result<String, Mistake> {
    let text = written.get_ref();
    let groups: Vec<&str> = text.split(':').collect();
    let fine = |group: &&str| group.len() == 2 && group.chars().all(|c| c.is_ascii_hexdigit());
    if groups.len() == 6 && groups.iter().all(fine) {
        let first = u8::from_str_radix(groups[0], 16).unwrap_or_default();
        if first & 1 == 1 {
            return Err(file
                .at(written, format!("`{text}` is an address of many, not of a network card"))
                .help("the first byte of a card's address is even, as in `52:54:00:12:34:56`"));
        }
        return Ok(text.to_ascii_lowercase());
    }
    Err(file.at(written, format!("`{text}` is not a MAC address")).help("write it like `52:54:00:12:34:56`"))
}

/// The image that a text names: `IMAGE`, if one cache alone has it, or `CACHE/IMAGE`.
pub(super) fn image(
    file: &File<'_>,
    caches: &[ImageCachePlan],
    written: &Spanned<String>,
) -> Result<ImageRef, Mistake> {
    let text = written.get_ref();
    let (cache, name) = match text.split_once('/') {
        Some((cache, name)) => (Some(cache), name),
        None => (None, text.as_str()),
    };
    let refs = || {
        let every = caches.iter().flat_map(|cache| cache.images.iter().map(move |image| (cache, image)));
        every.map(|(cache, image)| ImageRef { cache: cache.name.clone(), image: image.name.clone() })
    };
    let mut found =
        refs().filter(|image| image.image == name && cache.is_none_or(|cache| image.cache == cache));
    match (found.next(), found.next()) {
        (Some(image), None) => Ok(image),
        (Some(first), Some(_)) => Err(file
            .at(written, format!("more than one cache has `{name}`"))
            .help(format!("name the cache too, like `{}/{}`", first.cache, first.image))),
        (None, _) => {
            let known: Vec<String> =
                refs()
                    .map(|image| {
                        if cache.is_some() { format!("{}/{}", image.cache, image.image) } else { image.image }
                    })
                    .collect();
            Err(file
                .at(written, format!("there is no image `{text}`"))
                .meant(text, known.iter().map(String::as_str)))
        }
    }
}

fn network(file: &File<'_>, raw: &raw::Network) -> Result<NetworkPlan, Mistake> {
    let usual = NetworkPlan::default();
    Ok(NetworkPlan {
        latency: raw.latency.as_ref().map_or(Ok(usual.latency), |written| file.span(written))?,
        jitter: raw.jitter.as_ref().map_or(Ok(usual.jitter), |written| file.span(written))?,
        loss: match &raw.loss {
            Some(written) if !(0.0..1.0).contains(written.get_ref()) => {
                return Err(file
                    .at(written, format!("{} is not a share of packets to lose", written.get_ref()))
                    .help("at least 0, and less than 1"));
            }
            Some(written) => *written.get_ref(),
            None => usual.loss,
        },
    })
}
