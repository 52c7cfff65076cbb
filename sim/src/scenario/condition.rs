//! What can be true of hosts at a moment.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::pattern::Pattern;
use crate::trace::view::{HostView, Resource, View};

/// Something that can be true of some hosts. What is `None` is not asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// The BareMetalHosts asked about; at least one.
    pub hosts: Vec<String>,
    /// `status.provisioning.state`, or `gone`.
    pub state: Option<String>,
    /// `status.operationalStatus`.
    pub status: Option<String>,
    /// `status.errorType`.
    pub error: Option<ErrorWanted>,
    /// A pattern for `status.errorMessage`.
    pub message: Option<Pattern>,
    /// `status.errorCount`.
    pub error_count: Option<u64>,
    /// `spec.online`.
    pub online: Option<bool>,
    /// `status.poweredOn`.
    pub powered_on: Option<bool>,
    /// Whether the machine itself has power.
    pub power: Option<bool>,
    /// Ironic's provision state of the node.
    pub node: Option<String>,
}

/// What is asked of an error type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorWanted {
    /// There is no error.
    None,
    /// There is some error.
    Any,
    /// It is this one.
    Is(String),
}

impl ErrorWanted {
    fn admits(&self, error: &str) -> bool {
        match self {
            Self::None => error.is_empty(),
            Self::Any => !error.is_empty(),
            Self::Is(wanted) => wanted == error,
        }
    }
}

impl Condition {
    /// Whether it holds for all its hosts.
    pub fn holds(&self, view: &View) -> bool {
        self.hosts.iter().all(|host| self.holds_for(&view.host(host)))
    }

    /// The first of its hosts for which it holds.
    pub fn holder<'a>(&'a self, view: &View) -> Option<&'a str> {
        self.hosts.iter().find(|host| self.holds_for(&view.host(host))).map(String::as_str)
    }

    /// The first of its hosts for which it does not hold.
    pub fn breaker<'a>(&'a self, view: &View) -> Option<&'a str> {
        self.hosts.iter().find(|host| !self.holds_for(&view.host(host))).map(String::as_str)
    }

    fn holds_for(&self, host: &HostView) -> bool {
        let state = match (&self.state, &host.resource) {
            (None, _) => true,
            (Some(wanted), Some(resource)) => *wanted == resource.state,
            (Some(wanted), None) => wanted == "gone" && host.existed,
        };
        let of_machine = self.power.is_none_or(|power| host.power == Some(power))
            && self.node.as_ref().is_none_or(|node| host.node.as_ref() == Some(node));
        let of_resource = !self.asks_of_resource()
            || host.resource.as_ref().is_some_and(|resource| self.holds_of(resource));
        state && of_machine && of_resource
    }

    fn asks_of_resource(&self) -> bool {
        self.status.is_some()
            || self.error.is_some()
            || self.message.is_some()
            || self.error_count.is_some()
            || self.online.is_some()
            || self.powered_on.is_some()
    }

    fn holds_of(&self, resource: &Resource) -> bool {
        self.status.as_ref().is_none_or(|status| *status == resource.status)
            && self.error.as_ref().is_none_or(|error| error.admits(&resource.error))
            && self.message.as_ref().is_none_or(|message| message.matches(&resource.message))
            && self.error_count.is_none_or(|count| count == resource.error_count)
            && self.online.is_none_or(|online| online == resource.online)
            && self.powered_on.is_none_or(|on| on == resource.powered_on)
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut asked = Vec::new();
        let mut ask =
            |key: &str, value: Option<String>| asked.extend(value.map(|value| format!("{key} {value}")));
        ask("in state", self.state.clone());
        ask("with status", self.status.clone());
        ask(
            "with",
            self.error.as_ref().map(|error| match error {
                ErrorWanted::None => "no error".to_owned(),
                ErrorWanted::Any => "an error".to_owned(),
                ErrorWanted::Is(error) => format!("`{error}`"),
            }),
        );
        ask("with message", self.message.as_ref().map(|message| format!("`{message}`")));
        ask("with errorCount", self.error_count.map(|count| count.to_string()));
        ask("with online", self.online.map(|online| online.to_string()));
        ask("with poweredOn", self.powered_on.map(|on| on.to_string()));
        ask("with its machine", self.power.map(|on| if on { "on" } else { "off" }.to_owned()));
        ask("with its node", self.node.clone());
        write!(f, "{} {}", self.hosts.join(", "), asked.join(", "))
    }
}
