//! Checks faults: those of the network here, those of a fake by the fake's own type.

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;
use toml::Spanned;

use super::Checker;
use crate::scenario::{
    mistake::Mistake,
    plan::bmc_name,
    raw,
    step::{Fault, NetworkFault, Trouble},
    time::Range,
};

/// Checks one fault.
pub(super) fn fault(checker: &Checker<'_>, written: &Spanned<raw::Fault>) -> Result<Fault<Range>, Mistake> {
    let (raw, file) = (written.get_ref(), &checker.file);
    let mut troubles = Vec::new();
    if let Some(kind) = &raw.kind {
        troubles.push(network(checker, raw, kind)?);
    }
    if let Some(fault) = &raw.bmc {
        troubles.push(bmc(checker, raw, fault)?);
    }
    if let Some(fault) = &raw.ironic {
        let fault = ironic(checker, fault)?;
        only(checker, raw, "ironic")?;
        troubles.push(Trouble::Ironic { fault });
    }
    if let Some(fault) = &raw.kube {
        let fault = payload::<fake_kube::Fault>(checker, fault)?;
        kube(checker, raw.kube.as_ref(), &fault)?;
        only(checker, raw, "kube")?;
        troubles.push(Trouble::Kube { fault });
    }
    if let Some(fault) = &raw.image_cache {
        troubles.push(image_cache(checker, raw, fault)?);
    }
    let trouble = match (troubles.pop(), troubles.is_empty()) {
        (Some(trouble), true) => trouble,
        (Some(_), false) => return Err(file.at(written, "these are two faults").help("make a step of each")),
        (None, _) => {
            return Err(file.at(written, "this does not say what breaks").help(
                "give it one of `kind` (a fault of the network), `bmc`, `ironic`, `kube`, `image_cache`",
            ));
        }
    };
    if let (
        Trouble::Bmc { .. } | Trouble::Ironic { .. } | Trouble::Kube { .. } | Trouble::ImageCache { .. },
        Some(from),
    ) = (&trouble, &raw.from)
    {
        return Err(file.at(from, "`from` belongs to faults of the network alone"));
    }
    let lasts = raw.lasts.as_ref().map(|lasts| checker.moments(lasts)).transpose()?;
    match (&raw.lasts, lasts) {
        (Some(written), Some(lasts)) if lasts.least.is_zero() => {
            Err(file.at(written, "a fault of no length does nothing"))
        }
        _ => Ok(Fault { trouble, lasts }),
    }
}

fn network(
    checker: &Checker<'_>,
    raw: &raw::Fault,
    written: &Spanned<raw::FaultKind>,
) -> Result<Trouble, Mistake> {
    let file = &checker.file;
    let kind = *written.get_ref();
    if let (Some(share), true) = (&raw.share, kind != raw::FaultKind::Loss) {
        return Err(file.at(share, "`share` belongs to the fault `loss` alone"));
    }
    if let (Some(latency), true) = (&raw.latency, kind != raw::FaultKind::Slow) {
        return Err(file.at(latency, "`latency` belongs to the fault `slow` alone"));
    }
    let what = match kind {
        raw::FaultKind::Unreachable => NetworkFault::Unreachable,
        raw::FaultKind::RequestsLost => NetworkFault::RequestsLost,
        raw::FaultKind::RepliesLost => NetworkFault::RepliesLost,
        raw::FaultKind::Refused => NetworkFault::Refused,
        raw::FaultKind::Reset => NetworkFault::Reset,
        raw::FaultKind::Hold => NetworkFault::Hold,
        raw::FaultKind::Loss => match &raw.share {
            Some(share) if *share.get_ref() > 0.0 && *share.get_ref() <= 1.0 => {
                NetworkFault::Loss { share: *share.get_ref() }
            }
            Some(share) => {
                return Err(file
                    .at(share, format!("{} is not a share of packets to lose", share.get_ref()))
                    .help("more than 0, and at most 1"));
            }
            None => return Err(file.at(written, "how many packets are lost?").help("add `share = 0.1`")),
        },
        raw::FaultKind::Slow => match &raw.latency {
            Some(latency) => match file.span(latency)? {
                Duration::ZERO => return Err(file.at(latency, "nothing is slower by no time")),
                latency => NetworkFault::Slow { latency },
            },
            None => return Err(file.at(written, "by how much is it slower?").help("add `latency = \"2s\"`")),
        },
    };
    let known = checker.plan.network_names();
    let names = |names| file.names(names, "host on the network", known.iter().map(String::as_str));
    let Some(target) = &raw.target else {
        return Err(file.at(written, "who is hard to reach?").help("add `target = \"node-0-bmc\"`"));
    };
    let from = raw.from.as_ref().map(names).transpose()?;
    Ok(Trouble::Network { targets: names(target)?, from, what })
}

fn bmc(checker: &Checker<'_>, raw: &raw::Fault, fault: &Spanned<toml::Value>) -> Result<Trouble, Mistake> {
    let fault_value = payload::<fake_bmc::Fault>(checker, fault)?;
    let Some(target) = &raw.target else {
        return Err(checker.file.at(fault, "whose BMC?").help("add `target = \"node-0-bmc\"`"));
    };
    let bmcs: Vec<String> = checker.plan.hosts.iter().map(|host| bmc_name(&host.name)).collect();
    let targets = checker.file.names(target, "BMC", bmcs.iter().map(String::as_str))?;
    let of_them = checker.plan.hosts.iter().filter(|host| targets.contains(&host.bmc_name()));
    Ok(Trouble::Bmc { hosts: of_them.map(|host| host.name.clone()).collect(), fault: fault_value })
}

/// Ironic's faults have a rule that their type does not show: it is asked by beginning one.
fn ironic(checker: &Checker<'_>, written: &Spanned<toml::Value>) -> Result<Value, Mistake> {
    let value = payload::<fake_ironic::Fault>(checker, written)?;
    let fault: fake_ironic::Fault = read(checker, written, &value)?;
    let faults = fake_ironic::Faults::default();
    faults.begin("check", fault).map_err(|error| checker.file.at(written, error.to_string()))?;
    Ok(value)
}

/// Answers with other codes are no refusals, and their clients would take them for success or wait for more.
fn kube(checker: &Checker<'_>, written: Option<&Spanned<toml::Value>>, value: &Value) -> Result<(), Mistake> {
    let Some(written) = written else { return Ok(()) };
    if let fake_kube::Fault::Status { code, .. } = read(checker, written, value)?
        && !(400..600).contains(&code)
    {
        return Err(checker
            .file
            .at(written, format!("{code} is not a status that refuses a request"))
            .help("`code` is from 400 to 599"));
    }
    Ok(())
}

fn image_cache(
    checker: &Checker<'_>,
    raw: &raw::Fault,
    fault: &Spanned<toml::Value>,
) -> Result<Trouble, Mistake> {
    let value = payload::<fake_image_cache::Fault>(checker, fault)?;
    let known = || checker.plan.image_caches.iter().map(|cache| cache.name.as_str());
    let caches = match &raw.target {
        Some(target) => checker.file.names(target, "image cache", known())?,
        None => known().map(str::to_owned).collect(),
    };
    if caches.is_empty() {
        return Err(checker.file.at(fault, "there is no image cache in this scenario"));
    }
    Ok(Trouble::ImageCache { caches, fault: value })
}

/// Ironic and the Kubernetes API are there once, and need no target.
fn only(checker: &Checker<'_>, raw: &raw::Fault, name: &'static str) -> Result<(), Mistake> {
    match &raw.target {
        Some(target) => checker.file.names(target, "target of this fault", [name]).map(drop),
        None => Ok(()),
    }
}

/// A fault in the words of the fake that it is of.
fn payload<F: DeserializeOwned>(
    checker: &Checker<'_>,
    written: &Spanned<toml::Value>,
) -> Result<Value, Mistake> {
    let value = serde_json::to_value(written.get_ref())
        .map_err(|error| checker.file.at(written, format!("this is not a fault: {error}")))?;
    read::<F>(checker, written, &value)?;
    Ok(value)
}

fn read<F: DeserializeOwned>(
    checker: &Checker<'_>,
    written: &Spanned<toml::Value>,
    value: &Value,
) -> Result<F, Mistake> {
    let (shown, text) = (checker.file.shown, checker.file.text);
    F::deserialize(value).map_err(|error| Mistake::of_serde(shown, text, written.span(), &error.to_string()))
}
