//! IPMI.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use ::ipmi::{
    Completion, NetFn, Privilege, Secret,
    server::{Config, Incoming, Reply, Responder, Server, User, Users},
};
use engine::{Effect, Rule};
use http::Method;
use wire::{Host, http::Timeouts};

use super::{
    super::{Driver, PowerChange, PowerState, requests::Requests},
    driver, ipmi_target, serve_cache, simulate,
};
use crate::settings::{Ipmi, Settings};

/// A machine behind an IPMI server, that notes the commands it gets.
#[derive(Clone, Default)]
struct Bmc(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    on: bool,
    /// Each command is answered so.
    refuses: Option<Completion>,
    /// Boot flags, as they were set last.
    boot: Vec<u8>,
    /// Family, number and data of each command but the probes.
    seen: Vec<String>,
}

impl Responder for Bmc {
    fn respond(&mut self, command: &Incoming<'_>) -> Reply {
        let mut state = self.0.lock().expect("no test panicked while it held the BMC");
        let Incoming { net_fn, command, data, .. } = *command;
        if net_fn == NetFn::GROUP_EXTENSION {
            return Reply::refuse(Completion::INVALID_COMMAND);
        }
        if (net_fn, command) != (NetFn::APP, 0x01) {
            let data: String = data.iter().map(|byte| format!(" {byte:02x}")).collect();
            state.seen.push(format!("{:02x}/{command:02x}{data}", net_fn.0));
        }
        if let Some(completion) = state.refuses {
            return Reply::refuse(completion);
        }
        match (net_fn, command) {
            (NetFn::APP, 0x01) => Reply::ok([0x20, 0x01, 0x01, 0x00, 0x02, 0, 0, 0, 0, 0, 0]),
            (NetFn::CHASSIS, 0x01) => Reply::ok([u8::from(state.on), 0, 0, 0]),
            (NetFn::CHASSIS, 0x02) => {
                state.on = data == [1];
                Reply::ok([])
            }
            (NetFn::CHASSIS, 0x08) => {
                if let [5, flags @ ..] = data {
                    state.boot = flags.to_vec();
                }
                Reply::ok([])
            }
            (NetFn::CHASSIS, 0x09) => Reply::ok([&[0x01, 0x05], &state.boot[..]].concat()),
            _ => Reply::refuse(Completion::INVALID_COMMAND),
        }
    }
}

impl Bmc {
    fn serve(host: &Host, password: &str) -> Self {
        let bmc = Self::default();
        bmc.0.lock().expect("nobody else has it yet").boot = vec![0; 5];
        let password = Secret::new(password).expect("the password is short");
        let users =
            Users::from([("admin".to_owned(), User { password, privilege: Privilege::Administrator })]);
        let (host, mut machine) = (host.clone(), bmc.clone());
        drop(host.clone().spawn(async move {
            let socket = host.udp(::ipmi::PORT).await.expect("the port is free");
            let mut server = Server::new(Config::new([7; 16]), host.dice("ipmi server"));
            let mut buffer = [0; ::ipmi::LARGEST_DATAGRAM];
            loop {
                let Ok((length, peer)) = socket.recv_from(&mut buffer).await else { continue };
                for answer in server.handle(host.now(), peer, &buffer[..length], &users, &mut machine) {
                    socket.send_to(&answer, peer).await.expect("the network takes it");
                }
            }
        }));
        bmc
    }

    fn seen(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().expect("no test panicked while it held the BMC").seen)
    }
}

/// What stands in the way of the first contact.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    NobodyListens,
    Unreachable,
    WrongPassword,
    Busy,
}

fn first_contact(trouble: Trouble, settings: Settings) -> (String, u64) {
    simulate(move |net| async move {
        let (host, bmc) = (net.host("ironic"), net.host("bmc"));
        match trouble {
            Trouble::NobodyListens => {}
            Trouble::Unreachable => {
                Bmc::serve(&bmc, "secret");
                net.add_rule(Rule { from: None, to: Some("bmc".to_owned()), effect: Effect::Unreachable });
            }
            Trouble::WrongPassword => {
                Bmc::serve(&bmc, "other");
            }
            Trouble::Busy => {
                let bmc = Bmc::serve(&bmc, "secret");
                bmc.0.lock().expect("nobody else has it yet").refuses = Some(Completion::NODE_BUSY);
            }
        }
        let driver = Driver::new(host.clone(), Arc::new(settings));
        let error = driver.verify(&ipmi_target()).await.expect_err("the BMC misbehaves");
        (error.to_string(), host.now().0.as_secs())
    })
}

#[test]
fn each_failure_of_the_first_contact_has_its_time_and_the_same_words() {
    for (trouble, seconds) in [
        // Each run of ipmitool takes 10 s, and 5 s pass before the next, until 60 s are over.
        (Trouble::NobodyListens, 70),
        (Trouble::Unreachable, 70),
        // Each run fails at once: 12 runs with 11 pauses.
        (Trouble::WrongPassword, 55),
        (Trouble::Busy, 55),
    ] {
        let (words, took) = first_contact(trouble, Settings::default());
        assert_eq!(words, "IPMI call failed: power status.", "{trouble:?}");
        assert!((seconds..=seconds + 1).contains(&took), "{trouble:?} took {took} s rather than {seconds} s");
    }
}

#[test]
fn an_ipmitool_that_repeats_by_itself_is_killed_after_a_minute() {
    let settings =
        Settings { ipmi: Ipmi { use_ipmitool_retries: true, ..Ipmi::default() }, ..Settings::default() };
    let (words, took) = first_contact(Trouble::NobodyListens, settings.clone());
    let (begins, ends) = words.split_once("'/tmp/tmp").expect("a password file is named");
    assert_eq!(
        begins,
        "Command '['ipmitool', '-I', 'lanplus', '-H', 'bmc', '-L', 'ADMINISTRATOR', '-p', '623', '-U', 'admin', '-R', '12', '-N', '5', '-f', "
    );
    assert!(ends.ends_with("', 'power', 'status']' timed out after 60 seconds"), "{ends}");
    assert_eq!(took, 60);
    // What cannot get better is not repeated.
    let (words, took) = first_contact(Trouble::WrongPassword, settings);
    assert_eq!((words.as_str(), took), ("IPMI call failed: power status.", 0));
}

const STATUS: &str = "00/01";
const KEEP: &str = "00/08 03 08";
const PXE_ONCE: &str = "00/08 05 a0 04 00 00 00";
const DISK: &str = "00/08 05 e0 08 00 00 00";

#[test]
fn power_commands_are_those_that_were_recorded() {
    use PowerChange::{Off, On, Reboot, SoftOff};
    let table: [(bool, PowerChange, &[&str], u64); 6] = [
        (false, On, &[STATUS, "00/02 01", STATUS], 10),
        (true, SoftOff, &[STATUS, "00/02 05", STATUS], 10),
        (false, Off, &[STATUS], 0),
        (false, Reboot, &[STATUS, "00/02 01", STATUS], 10),
        (true, Reboot, &[STATUS, "00/02 00", STATUS, "00/02 01", STATUS], 20),
        (true, Off, &[STATUS, "00/02 00", STATUS], 10),
    ];
    for (on, change, sent, seconds) in table {
        let (state, seen, took) = simulate(move |net| async move {
            let host = net.host("ironic");
            let bmc = Bmc::serve(&net.host("bmc"), "secret");
            bmc.0.lock().expect("nobody else has it yet").on = on;
            let state = driver(&host).change_power(&ipmi_target(), change, None).await;
            (state.ok(), bmc.seen(), host.now().0.as_secs())
        });
        assert_eq!(
            (state, seen),
            (Some(change.result()), sent.iter().map(ToString::to_string).collect()),
            "{change}"
        );
        assert_eq!(took, seconds, "{change} when on: {on}");
    }
}

#[test]
fn a_life_is_booted_from_the_network_and_then_from_disk() {
    let (inspected, script, deployed, adopted) = simulate(|net| async move {
        let host = net.host("ironic");
        let bmc = Bmc::serve(&net.host("bmc"), "secret");
        serve_cache(&net.host("cache"));
        let driver = driver(&host);
        let router = driver.boot_server_router();
        let server = host.clone();
        drop(host.spawn(async move { wire::http::serve(&server, 6180, router).await }));
        let parameters = BTreeMap::from([("ipa-api-url".to_owned(), "http://ironic:6385".to_owned())]);
        let target = ipmi_target();
        driver.boot_ramdisk(&target, &parameters).await.expect("boot the agent");
        let inspected = bmc.seen();
        let requests = Requests::new(&net.host("bmc"), Timeouts::default());
        let script = requests.fetch(Method::GET, "http://ironic:6180/pxelinux.cfg/00-5c-52-31-00-02").await;
        let script = script.expect("the boot server answers");
        driver.prepare_instance(&target).await.expect("prepare the instance");
        bmc.0.lock().expect("no test panicked").on = false;
        driver.boot_instance(&target).await.expect("boot the instance");
        let deployed = bmc.seen();
        driver.adopt(&target).await.expect("adopt");
        assert_eq!(driver.power_state(&target).await.ok(), Some(PowerState::On));
        (inspected, String::from_utf8_lossy(&script.body).into_owned(), deployed, bmc.seen())
    });
    assert_eq!(inspected, [STATUS, KEEP, PXE_ONCE, STATUS, "00/02 01", STATUS]);
    let node = super::NODE;
    assert_eq!(
        script,
        format!(
            "#!ipxe\nkernel http://ironic:6180/{node}/agent.kernel BOOTIF=01-00-5c-52-31-00-02 ipa-api-url=http://ironic:6385\ninitrd http://ironic:6180/{node}/agent.initramfs\nboot\n"
        )
    );
    assert_eq!(deployed, [KEEP, DISK, STATUS, "00/09 05 00 00", STATUS, "00/02 01", STATUS]);
    assert_eq!(adopted, ["00/09 05 00 00", STATUS]);
}
