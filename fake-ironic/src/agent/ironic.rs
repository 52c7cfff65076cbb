//! What the agent asks and tells Ironic: the inspection's result, which node this is, and that it is alive.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use rand::RngExt as _;
use serde_json::{Value, json};
use wire::{Dice, Host, http::Timeouts};

use super::{Hardware, PORT, command::Commands};
use crate::driver::requests::{Answer, Requests};

/// The microversions of the agent's three requests.
const INSPECTION_VERSION: &str = "1.84";
const LOOKUP_VERSION: &str = "1.62";
const HEARTBEAT_VERSION: &str = "1.68";

/// What the agent calls itself.
const VERSION: &str = "13.0.0";

/// How often the inspection's result is sent.
const INSPECTION_TRIES: u32 = 5;
/// Least and greatest pause between two such tries.
const INSPECTION_PAUSE: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(30));
/// Least and greatest pause between two look-ups.
const LOOKUP_PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// Pauses while the node is locked.
const LOCKED_PAUSES: [Duration; 3] =
    [Duration::from_secs(5), Duration::from_secs(10), Duration::from_secs(30)];
/// Heartbeats come after this part of the time within which Ironic wants one.
const HEARTBEAT_PART: std::ops::Range<f64> = 0.3..0.6;
/// After a refused heartbeat: seconds until the next.
const HEARTBEAT_CONFLICT: std::ops::Range<f64> = 5.0..10.0;
/// Heartbeats are at least this far apart, whatever ended.
const HEARTBEAT_LEAST: Duration = Duration::from_secs(5);
/// What Ironic wants if it does not say.
const HEARTBEAT_TIMEOUT: f64 = 300.0;

/// A token that Ironic shows to those who should have it already.
const MASKED: &str = "******";

/// The way to Ironic.
pub(super) struct Ironic {
    host: Host,
    requests: Requests,
    api_url: String,
    inspection_url: Option<String>,
    /// From the kernel's parameters: Ironic puts it there when it builds the boot disc.
    token: Option<String>,
    boot_interface: Option<String>,
    inventory: Value,
    /// Differs at each boot, so that chance does too.
    boot: String,
}

/// Which node the machine is.
pub(super) struct Node {
    uuid: String,
    heartbeat_timeout: f64,
}

impl Ironic {
    /// `None` without Ironic's address.
    pub(super) fn new(
        host: &Host,
        hardware: &dyn Hardware,
        parameters: &BTreeMap<String, String>,
    ) -> Option<Self> {
        let parameter = |name: &str| parameters.get(name).filter(|value| !value.is_empty()).cloned();
        let inventory = hardware.inventory();
        let booted_from = inventory.pointer("/boot/pxe_interface").and_then(Value::as_str);
        let boot_interface =
            booted_from.map(|mac| format!("01-{}", mac.to_ascii_lowercase().replace(':', "-")));
        let timeouts = Timeouts { connect: Duration::from_secs(60), read: Duration::from_secs(60) };
        Some(Self {
            host: host.clone(),
            requests: Requests::new(host, timeouts),
            api_url: parameter("ipa-api-url")?.trim_end_matches('/').to_owned(),
            inspection_url: parameter("ipa-inspection-callback-url"),
            token: parameter("ipa-agent-token"),
            boot_interface: parameter("BOOTIF").or(boot_interface),
            inventory,
            boot: host.uuid("agent boot").to_string(),
        })
    }

    fn dice(&self, purpose: &str) -> Dice {
        self.host.dice(&format!("agent {} {purpose}", self.boot))
    }

    /// Inspects the machine if asked to, and finds out which node it is, however long that takes.
    pub(super) async fn find_node(&self, commands: &Commands) -> Node {
        if let Some(token) = &self.token {
            commands.set_token(token);
        }
        if let Some(url) = &self.inspection_url
            && let Some(node) = self.inspect(url, commands).await
        {
            return node;
        }
        let mut dice = self.dice("lookup");
        let (mut tries, mut locked) = (0, 0);
        loop {
            let answer = self.ask(Method::GET, &self.lookup_url(), LOOKUP_VERSION, None).await;
            let wait = match answer {
                Ok(answer) if answer.status == StatusCode::OK => match self.recognise(&answer, commands) {
                    Some(node) => return node,
                    None => LOOKUP_PAUSE.1,
                },
                Ok(answer) if answer.status == StatusCode::CONFLICT => {
                    let pause = LOCKED_PAUSES[locked.min(LOCKED_PAUSES.len() - 1)];
                    locked += 1;
                    pause
                }
                Ok(_) | Err(_) => {
                    tries += 1;
                    back_off(LOOKUP_PAUSE, tries).mul_f64(dice.random_range(0.5..1.0))
                }
            };
            self.host.sleep(wait).await;
        }
    }

    /// Sends the inspection's result. Only what may pass is tried again: a node that Ironic does not expect is not.
    async fn inspect(&self, url: &str, commands: &Commands) -> Option<Node> {
        let body = json!({
            "inventory": self.inventory,
            "root_disk": self.inventory.pointer("/disks/0"),
            "boot_interface": self.boot_interface,
            "configuration": {
                "collectors": ["default", "logs"],
                "managers": [{ "name": "generic_hardware_manager", "version": "1.2" }],
            },
        });
        for tries in 1..=INSPECTION_TRIES {
            match self.ask(Method::POST, url, INSPECTION_VERSION, Some(&body)).await {
                Ok(answer) if answer.status.is_success() => return self.recognise(&answer, commands),
                Ok(answer) if answer.status == StatusCode::CONFLICT || answer.status.is_server_error() => {}
                Ok(_) => return None,
                Err(()) => {}
            }
            if tries < INSPECTION_TRIES {
                self.host.sleep(back_off(INSPECTION_PAUSE, tries)).await;
            }
        }
        None
    }

    fn lookup_url(&self) -> String {
        let interfaces = self.inventory.get("interfaces").and_then(Value::as_array);
        let macs =
            interfaces.into_iter().flatten().filter_map(|interface| interface.get("mac_address")?.as_str());
        let macs: Vec<String> = macs.map(|mac| mac.to_ascii_lowercase().replace(':', "%3A")).collect();
        format!("{}/v1/lookup?addresses={}", self.api_url, macs.join("%2C"))
    }

    /// Reads which node this is, and the token, from what Ironic answers to a look-up or an inspection.
    fn recognise(&self, answer: &Answer, commands: &Commands) -> Option<Node> {
        let body: Value = serde_json::from_slice(&answer.body).ok()?;
        let uuid = body.pointer("/node/uuid")?.as_str()?.to_owned();
        let config = body.get("config").unwrap_or(&Value::Null);
        let token = config.get("agent_token").and_then(Value::as_str).filter(|token| *token != MASKED);
        if let Some(token) = token {
            commands.set_token(token);
        }
        let heartbeat_timeout =
            config.get("heartbeat_timeout").and_then(Value::as_f64).unwrap_or(HEARTBEAT_TIMEOUT);
        self.host.note("agent", &uuid, json!({ "event": "found its node" }));
        Some(Node { uuid, heartbeat_timeout })
    }

    /// Sends heartbeats for ever: at once, then at uneven intervals, and soon after a command ended.
    pub(super) async fn keep_in_touch(&self, node: &Node, commands: &Commands) {
        let url = format!("{}/v1/heartbeat/{}", self.api_url, node.uuid);
        let callback_url = match self.host.address() {
            IpAddr::V4(address) => format!("http://{address}:{PORT}"),
            IpAddr::V6(address) => format!("http://[{address}]:{PORT}"),
        };
        let mut dice = self.dice("heartbeat");
        loop {
            let body = json!({
                "callback_url": callback_url,
                "agent_version": VERSION,
                "agent_token": commands.token(),
            });
            let answer = self.ask(Method::POST, &url, HEARTBEAT_VERSION, Some(&body)).await;
            let seconds = match answer {
                Ok(answer) if answer.status == StatusCode::CONFLICT => dice.random_range(HEARTBEAT_CONFLICT),
                Ok(_) | Err(()) => node.heartbeat_timeout * dice.random_range(HEARTBEAT_PART),
            };
            let wait = Duration::from_secs_f64(seconds.max(0.0));
            let least = wait.min(HEARTBEAT_LEAST);
            self.host.sleep(least).await;
            // Whichever comes first; that a command ended is told only once.
            let _ = wire::within(wait - least, commands.ended()).await;
        }
    }

    async fn ask(
        &self,
        method: Method,
        url: &str,
        version: &str,
        body: Option<&Value>,
    ) -> Result<Answer, ()> {
        let request = Request::builder()
            .method(method)
            .uri(url)
            .header("X-OpenStack-Ironic-API-Version", version)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json")
            .body(body.map_or_else(Bytes::new, |body| body.to_string().into()));
        let request = request.map_err(|error| tracing::warn!(%error, "ask Ironic"))?;
        self.requests.send(request).await.map_err(|failure| tracing::debug!(%failure, "ask Ironic"))
    }
}

/// The pause after so many tries: doubled each time, within bounds.
fn back_off((least, greatest): (Duration, Duration), tries: u32) -> Duration {
    least.saturating_mul(1 << tries.saturating_sub(1).min(16)).min(greatest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_within_bounds() {
        for (tries, seconds) in [(1, 5), (2, 10), (3, 20), (4, 30), (99, 30)] {
            assert_eq!(back_off(INSPECTION_PAUSE, tries), Duration::from_secs(seconds));
        }
    }
}
