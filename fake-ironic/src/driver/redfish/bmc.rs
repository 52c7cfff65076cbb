//! Where a node's BMC is and how to log in there.

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::super::{DriverError, Target, text_of};
use crate::settings::{RedfishAuth, Settings};

/// One BMC and how to log in there, from a node's `driver_info`.
#[derive(Clone)]
pub(super) struct Bmc {
    pub(super) node: Uuid,
    /// Scheme, host and port.
    pub(super) address: String,
    /// The path of the node's system; `None` when the BMC has only one.
    pub(super) system: Option<String>,
    pub(super) account: Option<Account>,
    pub(super) auth: RedfishAuth,
}

/// Who logs in.
#[derive(Clone)]
pub(super) struct Account {
    pub(super) username: String,
    pub(super) password: String,
}

impl Bmc {
    pub(super) fn of(target: &Target, settings: &Settings) -> Result<Self, DriverError> {
        let info = &target.driver_info;
        let node = target.uuid;
        let Some(address) = text_of(info, "redfish_address") else {
            return Err(DriverError::Invalid(format!(
                "Missing the following Redfish properties in node {node} driver_info: ['redfish_address']"
            )));
        };
        let whole = if address.contains("://") { address.to_owned() } else { format!("https://{address}") };
        let parsed = whole.parse::<http::Uri>().ok().filter(|uri| {
            matches!(uri.scheme_str(), Some("http" | "https"))
                && uri.host().is_some_and(|host| !host.is_empty())
        });
        let Some(uri) = parsed else {
            return Err(DriverError::Invalid(format!(
                "Invalid Redfish address {address} set in driver_info/redfish_address on node {node}"
            )));
        };
        let authority = uri.authority().map(http::uri::Authority::as_str).unwrap_or_default();
        let address = format!("{}://{authority}", uri.scheme_str().unwrap_or("https"));
        let system = text_of(info, "redfish_system_id").map(str::to_owned);
        if system.as_deref().is_some_and(|path| path.contains("://")) {
            return Err(DriverError::Invalid(format!(
                "The value of driver_info/redfish_system_id on node {node} must be a path without scheme and authority"
            )));
        }
        let account = text_of(info, "redfish_username").map(|username| Account {
            username: username.to_owned(),
            password: text_of(info, "redfish_password").unwrap_or_default().to_owned(),
        });
        let auth = match info.get("redfish_auth_type").and_then(Value::as_str) {
            None => settings.redfish.auth_type,
            Some("auto") => RedfishAuth::Auto,
            Some("session") => RedfishAuth::Session,
            Some("basic") => RedfishAuth::Basic,
            Some(other) => {
                return Err(DriverError::Invalid(format!(
                    "Invalid value \"{other}\" set in driver_info/redfish_auth_type on node {node}. The value should be one of basic, session, auto."
                )));
            }
        };
        Ok(Self { node, address, system, account, auth })
    }

    /// Under what the connection is kept: another password is another connection.
    pub(super) fn key(&self) -> [u8; 32] {
        let mut key = Sha256::new();
        let account = self.account.as_ref();
        let parts = [
            self.address.as_str(),
            account.map_or("", |account| &account.username),
            account.map_or("", |account| &account.password),
        ];
        for part in parts {
            key.update((part.len() as u64).to_le_bytes());
            key.update(part);
        }
        key.finalize().into()
    }
}
