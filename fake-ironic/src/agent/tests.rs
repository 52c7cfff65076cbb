//! The agent on a machine of its own, against a small Ironic and a small image cache, in virtual time.

mod write;

use std::sync::Mutex;

use axum::{Router, body::Bytes, response::IntoResponse as _};
use engine::Network;
use http::{HeaderMap, Method, StatusCode, Uri};
use serde_json::{Value, json};
use wire::Seed;

use super::*;
use crate::{
    agent_client::{AgentClient, AgentError, CommandStatus, Progress},
    settings::Settings,
};

const NODE: &str = "43523e57-5a49-4a97-9e52-62f1eb0cdd3f";
const TOKEN: &str = "MZf5mHYe41YYANXONA5Kcct4pGYXQ0Hjy5tBBwm9A0g";

/// How long the machine's disk takes for anything.
const DISK: Duration = Duration::from_secs(20);

/// A machine that notes what is done to it.
struct Machine {
    host: Host,
    done: Mutex<Vec<String>>,
}

impl Machine {
    fn note(&self, what: String) {
        self.done.lock().expect("no test panicked while it held the list").push(what);
    }

    fn done(&self) -> Vec<String> {
        self.done.lock().expect("no test panicked while it held the list").clone()
    }
}

impl Hardware for Machine {
    fn inventory(&self) -> Value {
        json!({
            "interfaces": [
                { "name": "enp1s0", "mac_address": "00:5c:52:31:00:02" },
                { "name": "enp2s0", "mac_address": "00:5C:52:31:01:02" },
            ],
            "disks": [{ "name": "/dev/sda", "size": 1 }],
            "boot": { "current_boot_mode": "uefi", "pxe_interface": "00:5c:52:31:00:02" },
        })
    }

    fn write_disk(&self, digest: String, url: String) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.host.sleep(DISK).await;
            self.note(format!("wrote {digest} from {url}"));
        })
    }

    fn wipe_disk(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.host.sleep(DISK).await;
            self.note("wiped".to_owned());
        })
    }

    fn power_off(&self) {
        self.note("off".to_owned());
    }

    fn reboot(&self) {
        self.note("rebooted".to_owned());
    }
}

/// A request that the small Ironic got: when, what, with which microversion and body.
#[derive(Clone, Debug)]
struct Seen {
    at: Duration,
    what: String,
    version: String,
    body: Value,
}

/// Answers the agent's requests; which status each kind gets may be changed, once or for good.
#[derive(Clone)]
struct SmallIronic {
    host: Host,
    seen: Arc<Mutex<Vec<Seen>>>,
    /// The token that it hands out.
    token: Arc<Mutex<&'static str>>,
    /// For requests that begin so: the statuses to answer first.
    refusals: Arc<Mutex<BTreeMap<String, Vec<u16>>>>,
}

impl SmallIronic {
    fn serve(host: &Host, refusals: &[(&str, &[u16])]) -> Self {
        let refusals =
            refusals.iter().map(|(what, statuses)| ((*what).to_owned(), statuses.to_vec())).collect();
        let ironic = Self {
            host: host.clone(),
            seen: Arc::default(),
            token: Arc::new(Mutex::new(TOKEN)),
            refusals: Arc::new(Mutex::new(refusals)),
        };
        let service = ironic.clone();
        let app = Router::new().fallback(move |method, uri, headers, body| {
            let service = service.clone();
            async move { service.answer(&method, &uri, &headers, &body) }
        });
        let host = host.clone();
        drop(host.clone().spawn(async move { wire::http::serve(&host, 6385, app).await }));
        ironic
    }

    fn answer(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> axum::response::Response {
        let what = format!("{method} {uri}");
        let version = headers.get("X-OpenStack-Ironic-API-Version").and_then(|version| version.to_str().ok());
        self.seen.lock().expect("no test panicked").push(Seen {
            at: self.host.now().0,
            what: what.clone(),
            version: version.unwrap_or_default().to_owned(),
            body: serde_json::from_slice(body).unwrap_or_default(),
        });
        let mut refusals = self.refusals.lock().expect("no test panicked");
        let refusal = refusals.iter_mut().find(|(begin, _)| what.starts_with(begin.as_str()));
        if let Some(statuses) = refusal.map(|(_, statuses)| statuses)
            && !statuses.is_empty()
        {
            return StatusCode::from_u16(statuses.remove(0))
                .expect("tests name real statuses")
                .into_response();
        }
        if what.starts_with("POST /v1/heartbeat") {
            return StatusCode::ACCEPTED.into_response();
        }
        let token = *self.token.lock().expect("no test panicked");
        let config = json!({ "agent_token": token, "heartbeat_timeout": 300 });
        axum::Json(json!({ "node": { "uuid": NODE }, "config": config })).into_response()
    }

    fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("no test panicked").clone()
    }

    fn times(&self, begin: &str) -> Vec<u64> {
        self.seen().iter().filter(|seen| seen.what.starts_with(begin)).map(|seen| seen.at.as_secs()).collect()
    }

    /// Waits for the next heartbeat.
    async fn heartbeat(&self) -> Seen {
        let before = self.times("POST /v1/heartbeat").len();
        loop {
            self.host.sleep(Duration::from_millis(100)).await;
            let heartbeats: Vec<Seen> =
                self.seen().into_iter().filter(|seen| seen.what.starts_with("POST /v1/heartbeat")).collect();
            if heartbeats.len() > before {
                return heartbeats[heartbeats.len() - 1].clone();
            }
        }
    }
}

/// An agent that has been booted, and the Ironic that waits for it.
struct Booted {
    ironic: SmallIronic,
    machine: Arc<Machine>,
    client: AgentClient,
    callback_url: String,
    agent: wire::Task<()>,
}

fn boot(net: &Network, refusals: &[(&str, &[u16])], parameters: &[(&str, &str)]) -> Booted {
    let (host, board) = (net.host("ironic"), net.host("machine"));
    let ironic = SmallIronic::serve(&host, refusals);
    let machine = Arc::new(Machine { host: board.clone(), done: Mutex::default() });
    let mut all = BTreeMap::from([("ipa-api-url".to_owned(), "http://ironic:6385".to_owned())]);
    all.extend(parameters.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
    let agent = board.spawn(run(board.clone(), Arc::clone(&machine) as Arc<dyn Hardware>, all));
    let callback_url = format!("http://{}:9999", board.address());
    let client = AgentClient::new(host, Arc::new(Settings::default()));
    Booted { ironic, machine, client, callback_url, agent }
}

impl Booted {
    async fn command(&self, name: &str, params: Value, wait: bool) -> Result<CommandStatus, AgentError> {
        self.client.command(&self.callback_url, TOKEN, name, params, wait).await
    }

    /// Gives a command that runs on, waits for the heartbeat that follows its end, and reads how it ended.
    async fn outcome(&self, name: &str, params: Value) -> CommandStatus {
        let given = self.command(name, params, false).await.expect("the agent takes it");
        assert_eq!(given.progress, Progress::Running);
        loop {
            self.ironic.heartbeat().await;
            let all = self.client.statuses(&self.callback_url, TOKEN).await.expect("the agent tells");
            let last = all.last().expect("a command was given").clone();
            assert_eq!(last.id, given.id);
            if last.progress != Progress::Running {
                return last;
            }
        }
    }
}

fn simulate<T, F, Fut>(world: F) -> T
where
    T: Send + 'static,
    F: FnOnce(Network) -> Fut + Send + 'static,
    Fut: Future<Output = T>,
{
    engine::simulate(Seed(1), world)
}

#[test]
fn an_agent_finds_its_node_and_sends_heartbeats_at_uneven_intervals() {
    let (seen, gaps) = simulate(|net| async move {
        let booted = boot(&net, &[], &[]);
        booted.ironic.host.sleep(Duration::from_secs(3600)).await;
        let times = booted.ironic.times("POST /v1/heartbeat");
        let gaps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        (booted.ironic.seen(), gaps)
    });
    assert_eq!(
        seen[0].what,
        "GET /v1/lookup?addresses=00%3A5c%3A52%3A31%3A00%3A02%2C00%3A5c%3A52%3A31%3A01%3A02"
    );
    assert_eq!(seen[0].version, "1.62");
    assert_eq!(seen[1].what, format!("POST /v1/heartbeat/{NODE}"));
    assert_eq!(seen[1].version, "1.68");
    assert_eq!(seen[1].body["agent_token"], TOKEN);
    assert!(seen[1].body["callback_url"].as_str().is_some_and(|url| url.ends_with(":9999")), "{:?}", seen[1]);
    assert!(gaps.iter().all(|gap| (90..=180).contains(gap)), "{gaps:?}");
    assert!(gaps.iter().any(|gap| gap != &gaps[0]), "{gaps:?}");
}

#[test]
fn an_inspection_is_sent_until_ironic_takes_it_and_tells_which_node_it_is() {
    let callback = [("ipa-inspection-callback-url", "http://ironic:6385/v1/continue_inspection")];
    let (seen, times) = simulate(move |net| async move {
        let booted = boot(&net, &[("POST /v1/continue_inspection", &[409, 500])], &callback);
        booted.ironic.heartbeat().await;
        (booted.ironic.seen(), booted.ironic.times("POST /v1/continue_inspection"))
    });
    assert_eq!(times, [0, 5, 15]);
    assert_eq!(seen[2].version, "1.84");
    assert_eq!(seen[2].body["boot_interface"], "01-00-5c-52-31-00-02");
    assert_eq!(seen[2].body["root_disk"]["name"], "/dev/sda");
    assert_eq!(seen[2].body["inventory"]["interfaces"][0]["name"], "enp1s0");
    // The answer made the look-up needless.
    assert_eq!(seen[3].what, format!("POST /v1/heartbeat/{NODE}"));
}

#[test]
fn an_inspection_that_ironic_does_not_expect_is_not_repeated() {
    let callback = [("ipa-inspection-callback-url", "http://ironic:6385/v1/continue_inspection")];
    let whats = simulate(move |net| async move {
        let booted = boot(&net, &[("POST /v1/continue_inspection", &[404])], &callback);
        booted.ironic.heartbeat().await;
        booted.ironic.seen().into_iter().map(|seen| seen.what).collect::<Vec<_>>()
    });
    assert_eq!(whats.len(), 3);
    assert!(whats[0].starts_with("POST /v1/continue_inspection"));
    assert!(whats[1].starts_with("GET /v1/lookup"));
}

#[test]
fn a_node_that_is_locked_or_unknown_is_looked_up_again() {
    let times = simulate(|net| async move {
        let booted = boot(&net, &[("GET /v1/lookup", &[409, 409, 404, 404, 404])], &[]);
        booted.ironic.heartbeat().await;
        booted.ironic.times("GET /v1/lookup")
    });
    assert_eq!(times[..3], [0, 5, 15]);
    assert_eq!(times.len(), 6);
    assert!(times[5] <= 15 + 1 + 2 + 4, "{times:?}");
}

#[test]
fn a_refused_heartbeat_comes_again_soon() {
    let times = simulate(|net| async move {
        let booted = boot(&net, &[("POST /v1/heartbeat", &[409, 409])], &[]);
        booted.ironic.host.sleep(Duration::from_secs(60)).await;
        booted.ironic.times("POST /v1/heartbeat")
    });
    assert_eq!(times.len(), 3, "{times:?}");
    assert!(times.windows(2).all(|pair| (5..=10).contains(&(pair[1] - pair[0]))), "{times:?}");
}

#[test]
fn a_token_from_the_kernels_parameters_is_used_and_a_masked_one_is_not() {
    let (told, taken, refused) = simulate(|net| async move {
        let booted = boot(&net, &[], &[("ipa-agent-token", "given")]);
        *booted.ironic.token.lock().expect("no test panicked") = "******";
        let heartbeat = booted.ironic.heartbeat().await;
        let sync = async |token| {
            booted.client.command(&booted.callback_url, token, "standby.sync", json!({}), true).await
        };
        (heartbeat.body["agent_token"].clone(), sync("given").await, sync(TOKEN).await)
    });
    assert_eq!(told, "given");
    assert!(taken.is_ok_and(|command| command.progress == Progress::Succeeded));
    let Err(AgentError::Refused { status: 401, error, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(error, "Token invalid.");
}

#[test]
fn cleaning_runs_on_after_the_answer_and_is_told_by_a_heartbeat() {
    simulate(|net| async move {
        let booted = boot(&net, &[], &[]);
        booted.ironic.heartbeat().await;
        let steps = booted.command("clean.get_clean_steps", json!({ "node": {}, "ports": [] }), true).await;
        let steps = steps.expect("the agent knows its steps");
        assert_eq!((steps.progress, steps.name.as_str()), (Progress::Succeeded, "get_clean_steps"));
        assert_eq!(steps.params, json!({}));
        let offered = &steps.result["clean_steps"]["GenericHardwareManager"][1];
        assert_eq!((&offered["step"], &offered["priority"]), (&json!("erase_devices_metadata"), &json!(99)));

        let step = json!({ "step": "erase_devices_metadata", "interface": "deploy" });
        let version = &steps.result["hardware_manager_version"];
        let params = json!({ "step": step, "node": {}, "ports": [], "clean_version": version });
        let began = booted.ironic.host.now();
        let given =
            booted.command("clean.execute_clean_step", params, false).await.expect("the agent takes it");
        assert_eq!(given.progress, Progress::Running);
        let busy = booted.command("standby.sync", json!({}), true).await;
        let Err(AgentError::Busy { error, .. }) = busy else { panic!("{busy:?}") };
        assert_eq!(error, "Agent is busy executing another command: execute_clean_step");

        booted.ironic.heartbeat().await;
        assert_eq!((booted.ironic.host.now() - began).as_secs(), DISK.as_secs());
        let all = booted.client.statuses(&booted.callback_url, TOKEN).await.expect("the agent tells");
        assert_eq!(
            all.iter().map(|command| command.name.as_str()).collect::<Vec<_>>(),
            ["get_clean_steps", "execute_clean_step",]
        );
        assert_eq!(all[1].progress, Progress::Succeeded);
        assert_eq!(all[1].result, json!({ "clean_result": null, "clean_step": step }));
        assert_eq!(booted.machine.done(), ["wiped"]);
    });
}

#[test]
fn steps_of_another_hardware_manager_are_not_carried_out() {
    simulate(|net| async move {
        let booted = boot(&net, &[], &[]);
        booted.ironic.heartbeat().await;
        let version = json!({ "other_manager": "1" });
        let params = json!({ "step": { "step": "erase_devices" }, "clean_version": version });
        let ended = booted.outcome("clean.execute_clean_step", params).await;
        assert_eq!(ended.progress, Progress::CleanVersionMismatch);
        let ended = booted.outcome("clean.execute_clean_step", json!({ "step": { "step": "fly" } })).await;
        let error = ended.error.expect("there is no such step");
        assert_eq!((error.kind.as_str(), error.code), ("CleaningError", 500));
        assert!(error.details.starts_with("Error performing clean step fly: "), "{}", error.details);
        let unknown = booted.command("clean.fly", json!({}), true).await;
        assert!(matches!(unknown, Err(AgentError::Refused { status: 400, .. })), "{unknown:?}");
        assert_eq!(booted.machine.done(), [""; 0]);
    });
}

#[test]
fn after_powering_off_the_agent_does_nothing() {
    simulate(|net| async move {
        let booted = boot(&net, &[], &[]);
        booted.ironic.heartbeat().await;
        let off = booted.command("standby.power_off", json!({}), false).await.expect("the agent takes it");
        assert_eq!(off.progress, Progress::Running);
        booted.ironic.host.sleep(Duration::from_secs(60)).await;
        assert_eq!(booted.machine.done(), ["off"]);
        // The machine stops its software when its power goes.
        booted.agent.abort();
        let heard = booted.ironic.times("POST /v1/heartbeat").len();
        booted.ironic.host.sleep(Duration::from_secs(3600)).await;
        assert_eq!(booted.ironic.times("POST /v1/heartbeat").len(), heard);
        let gone = booted.command("standby.sync", json!({}), true).await;
        let Err(error @ AgentError::Connection { .. }) = gone else { panic!("{gone:?}") };
        let words = error.in_words(NODE.parse().expect("this is a UUID"));
        assert!(
            words.starts_with("Connection to agent failed: Failed to connect to the agent running on node"),
            "{words}"
        );
        assert!(words.contains("agent_token=***") && !words.contains(TOKEN), "{words}");
    });
}

#[test]
fn a_machine_that_loses_its_power_writes_no_further() {
    let done = simulate(|net| async move {
        let booted = boot(&net, &[], &[]);
        booted.ironic.heartbeat().await;
        let step = json!({ "step": { "step": "erase_devices" } });
        booted.command("clean.execute_clean_step", step, false).await.expect("the agent takes it");
        booted.ironic.host.sleep(DISK / 2).await;
        booted.agent.abort();
        booted.ironic.host.sleep(DISK * 10).await;
        booted.machine.done()
    });
    assert_eq!(done, [""; 0]);
}
