//! Client and server in one world: sessions, what goes wrong with them, and how long a client waits.
//!
//! The waits are ipmitool's, measured with 1.8.19 and `-R 1 -N 5` or its defaults against BMCs that are deaf at one
//! point each.

use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use ipmi::{
    CipherSuite, Client, ClientError, Completion, Credentials, NetFn, PORT, Privilege, Retry, Secret, Status,
    command::{
        BootDevice, BootFlags, BootOption, ChassisControl, ChassisStatus, Control, DeviceId, GetBootOption,
        GetChassisStatus, GetDeviceId, GetSystemGuid, Request, SetBootOption, SetPrivilege,
    },
    packet::PayloadType,
    rmcp::Datagram,
    server::{Config, Incoming, Obstacle, Reply, Responder, Server, User, Users, serve_on},
    setup::{Rakp1, Step},
};
use wire::{Host, Instant, Seed};

const GUID: [u8; 16] = [0xa5; 16];

#[derive(Default)]
struct Machine {
    on: bool,
    boot: BootFlags,
    /// How often the power was cycled.
    cycles: u32,
    /// The commands that came, in their order.
    seen: Vec<(u8, u8)>,
    /// What becomes of the next commands of this kind.
    intercepts: VecDeque<((NetFn, u8), Reply)>,
    /// What stands in the way of this step, each time.
    obstacle: Option<(Step, Obstacle)>,
}

impl Responder for Machine {
    fn respond(&mut self, command: &Incoming<'_>) -> Reply {
        let request = match Request::parse(command.net_fn, command.command, command.data) {
            Ok(request) => request,
            Err(completion) => return Reply::refuse(completion),
        };
        match request {
            Request::GetDeviceId => return Reply::ok(device().encode()),
            Request::GetChassisStatus => return Reply::ok(ChassisStatus::healthy(self.on).encode()),
            Request::ChassisControl(Control::Up) => self.on = true,
            Request::ChassisControl(Control::Cycle) => self.cycles += 1,
            Request::ChassisControl(_) => self.on = false,
            Request::SetBootOption(BootOption::Flags(flags)) => self.boot = flags,
            Request::SetBootOption(_) => {}
            Request::GetBootOption(GetBootOption { number: 5 }) => {
                return Reply::ok(BootOption::Flags(self.boot).encode_answer());
            }
            Request::GetBootOption(_) => return Reply::refuse(Completion::NOT_AVAILABLE),
        }
        Reply::ok([])
    }

    fn intercept(&mut self, command: &Incoming<'_>) -> Option<Reply> {
        self.seen.push((command.net_fn.0, command.command));
        let this = (command.net_fn, command.command);
        let (_, reply) = self.intercepts.pop_front_if(|(wanted, _)| *wanted == this)?;
        // What is lost was carried out.
        if matches!(reply, Reply::Lost { .. }) {
            self.respond(command);
        }
        Some(reply)
    }

    fn obstruct(&mut self, _: Instant, _: SocketAddr, step: Step) -> Option<Obstacle> {
        self.obstacle.filter(|(wanted, _)| *wanted == step).map(|(_, obstacle)| obstacle)
    }
}

fn device() -> DeviceId {
    DeviceId {
        device: 0x20,
        revision: 0x81,
        firmware: (2, 0x34),
        version: 0x02,
        support: 0xbf,
        manufacturer: 674,
        product: 0x0100,
        auxiliary: Some([1, 2, 3, 4]),
    }
}

/// A BMC on the network, and who talks to it.
#[derive(Clone)]
struct World {
    bmc: Arc<Mutex<Bmc>>,
    console: Host,
}

struct Bmc {
    server: Server,
    users: Users,
    machine: Machine,
    /// All that came.
    datagrams: Vec<Vec<u8>>,
}

impl World {
    fn run<T, S, F>(config: Config, story: S) -> T
    where
        T: Send + 'static,
        S: FnOnce(Self) -> F + Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        engine::simulate(Seed(3), |net| async move {
            let user = |privilege| User { password: Secret::new("password").unwrap(), privilege };
            let users = Users::from([
                ("admin".to_owned(), user(Privilege::Administrator)),
                ("guest".to_owned(), user(Privilege::User)),
            ]);
            let host = net.host("bmc");
            let server = Server::new(config, host.dice("ipmi"));
            let bmc = Bmc { server, users, machine: Machine::default(), datagrams: Vec::new() };
            let bmc = Arc::new(Mutex::new(bmc));
            let socket = host.udp(PORT).await.unwrap();
            let (served, serving) = (Arc::clone(&bmc), host.clone());
            drop(host.spawn(async move {
                serve_on(&serving, &socket, |now, peer, datagram| {
                    let Bmc { server, users, machine, datagrams } = &mut *served.lock().unwrap();
                    datagrams.push(datagram.to_vec());
                    server.handle(now, peer, datagram, users, machine)
                })
                .await
            }));
            net.host("nobody");
            story(Self { bmc, console: net.host("console") }).await
        })
    }

    fn bmc<T>(&self, look: impl FnOnce(&mut Bmc) -> T) -> T {
        look(&mut self.bmc.lock().unwrap())
    }

    fn intercept(&self, net_fn: NetFn, command: u8, reply: Reply) {
        self.bmc(|bmc| bmc.machine.intercepts.push_back(((net_fn, command), reply)));
    }

    async fn connect(
        &self,
        who: &Credentials,
        suite: CipherSuite,
        retry: Retry,
    ) -> Result<Client, ClientError> {
        Client::connect(&self.console, "bmc", PORT, who, suite, Privilege::Administrator, retry).await
    }

    async fn connected(&self, retry: Retry) -> Client {
        self.connect(&admin(), CipherSuite::C17, retry).await.unwrap()
    }

    /// A failing connection as its error and the whole seconds it took.
    async fn failure(&self, who: &Credentials, suite: CipherSuite, retry: Retry) -> (ClientError, u64) {
        let began = self.console.now();
        let error = self.connect(who, suite, retry).await.expect_err("it cannot be had");
        (error, (self.console.now() - began).as_secs())
    }
}

fn admin() -> Credentials {
    Credentials::new("admin", "password").unwrap()
}

fn config() -> Config {
    Config::new(GUID)
}

/// The parts of an error that callers tell apart.
fn seen(error: &ClientError) -> String {
    match error {
        ClientError::NoAnswer { stage } => format!("no answer: {stage}"),
        ClientError::Refused { stage } => format!("refused: {stage}"),
        ClientError::Setup { step, status } => format!("{step}: {status}"),
        ClientError::Completion { completion, .. } => completion.to_string(),
        ClientError::WrongPassword => "wrong password".to_owned(),
        ClientError::WrongKey => "wrong key".to_owned(),
        ClientError::Resolve { .. }
        | ClientError::Socket { .. }
        | ClientError::Unsupported
        | ClientError::Malformed { .. } => panic!("{error}"),
    }
}

#[test]
fn each_suite_carries_a_session_from_log_in_to_close() {
    for suite in CipherSuite::ALL {
        let config = Config { suites: vec![suite], ..config() };
        World::run(config, move |world| async move {
            let mut client = world.connect(&admin(), suite, Retry::ONCE).await.unwrap();
            client.probe().await.unwrap();
            assert_eq!(client.run(&GetDeviceId).await.unwrap(), device());
            assert_eq!(client.run(&GetSystemGuid).await.unwrap(), GUID);
            assert!(!client.run(&GetChassisStatus).await.unwrap().on);
            client.run(&ChassisControl(Control::Up)).await.unwrap();
            assert!(client.run(&GetChassisStatus).await.unwrap().on);
            let flags = BootFlags { valid: true, efi: true, device: BootDevice::Pxe, ..BootFlags::default() };
            client.run(&SetBootOption(BootOption::ValidBitClearing(8))).await.unwrap();
            client.run(&SetBootOption(BootOption::Flags(flags))).await.unwrap();
            let got = client.run(&GetBootOption { number: 5 }).await.unwrap();
            assert_eq!(got, BootOption::Flags(flags));
            assert_eq!(world.bmc(|bmc| bmc.server.sessions()), 1);
            client.close().await.unwrap();
            assert_eq!(world.bmc(|bmc| bmc.server.sessions()), 0);
        });
    }
}

#[test]
fn commands_come_in_the_order_of_an_ipmitool_process() {
    World::run(config(), |world| async move {
        let mut client = world.connected(Retry::ONCE).await;
        client.probe().await.unwrap();
        client.run(&GetChassisStatus).await.unwrap();
        client.close().await.unwrap();
        let expected = [
            (0x06, 0x38),
            (0x06, 0x3b),
            (0x2c, 0x3e),
            (0x06, 0x01),
            (0x2c, 0x00),
            (0x2c, 0x00),
            (0x00, 0x01),
            (0x06, 0x3c),
        ];
        assert_eq!(world.bmc(|bmc| bmc.machine.seen.clone()), expected);
    });
}

#[test]
fn a_key_of_the_bmcs_own_is_needed_where_one_is_set() {
    for suite in [CipherSuite::C3, CipherSuite::C17] {
        let config = Config { kg: Some(Secret::new("secretkg").unwrap()), ..config() };
        World::run(config, move |world| async move {
            let with_key = admin().with_kg("secretkg").unwrap();
            let client = world.connect(&with_key, suite, Retry::ONCE).await.unwrap();
            client.close().await.unwrap();
            let (error, _) = world.failure(&admin(), suite, Retry::ONCE).await;
            assert_eq!(seen(&error), "wrong key");
        });
    }
}

#[test]
fn a_refused_log_in_tells_why_at_once() {
    let who = |user: &str, password: &str| Credentials::new(user, password).unwrap();
    let cases = [
        (who("admin", "wrong"), CipherSuite::C3, "wrong password", true),
        (who("admin", "wrong"), CipherSuite::C17, "wrong password", true),
        (who("root", "password"), CipherSuite::C17, "RAKP message 1: unauthorized name", true),
        (who("guest", "password"), CipherSuite::C17, "RAKP message 1: unauthorized role requested", false),
        (admin(), CipherSuite::C2, "Open Session: no matching cipher suite", false),
    ];
    for (who, suite, expected, bad_credentials) in cases {
        World::run(config(), move |world| async move {
            let (error, took) = world.failure(&who, suite, Retry::ONCE).await;
            assert_eq!((seen(&error).as_str(), took), (expected, 0));
            assert_eq!(error.is_bad_credentials(), bad_credentials, "{error}");
            let text = format!("{error:?} {error}");
            assert!(!text.contains("password\"") && !text.contains("wrong\""), "{text}");
        });
    }
}

#[test]
fn obstacles_of_set_up_are_seen_as_what_they_are() {
    let refuse = Obstacle::Refuse;
    // step        obstacle                                 seen as                                               s
    let cases = [
        (
            Step::Open,
            refuse(Status::InsufficientResources),
            "Open Session: insufficient resources for session",
            0,
        ),
        (
            Step::Rakp1,
            refuse(Status::InsufficientResources),
            "RAKP message 1: insufficient resources for session",
            0,
        ),
        (
            Step::Rakp3,
            refuse(Status::InvalidIntegrityCheck),
            "RAKP message 3: invalid integrity check value",
            0,
        ),
        (Step::Rakp1, Obstacle::WrongCode, "wrong password", 0),
        (Step::Rakp3, Obstacle::WrongCode, "wrong key", 0),
        (Step::Open, Obstacle::Silence, "no answer: Open Session", 20),
        (Step::Rakp1, Obstacle::Silence, "no answer: RAKP message 1", 20),
        (Step::Rakp3, Obstacle::Silence, "no answer: RAKP message 3", 20),
    ];
    for (step, obstacle, expected, seconds) in cases {
        World::run(config(), move |world| async move {
            world.bmc(|bmc| bmc.machine.obstacle = Some((step, obstacle)));
            let (error, took) = world.failure(&admin(), CipherSuite::C17, Retry::ONCE).await;
            assert_eq!((seen(&error).as_str(), took), (expected, seconds), "{step} {obstacle:?}");
        });
    }
}

#[test]
fn a_deaf_bmc_is_waited_for_as_ipmitool_waits() {
    let capabilities = "no answer: Get Channel Authentication Capabilities";
    // retry            datagrams  seconds
    let cases = [(Retry::ONCE, 2, 10), (Retry::default(), 8, 20)];
    for (retry, datagrams, seconds) in cases {
        World::run(config(), move |world| async move {
            for _ in 0..datagrams {
                world.intercept(NetFn::APP, 0x38, Reply::Silence);
            }
            let (error, took) = world.failure(&admin(), CipherSuite::C3, retry).await;
            assert_eq!((seen(&error).as_str(), took), (capabilities, seconds));
            assert_eq!(world.bmc(|bmc| bmc.datagrams.len()), datagrams);
        });
    }
}

#[test]
fn one_lost_first_datagram_costs_five_seconds() {
    World::run(config(), |world| async move {
        world.intercept(NetFn::APP, 0x38, Reply::Silence);
        let began = world.console.now();
        world.connected(Retry::ONCE).await;
        assert_eq!((world.console.now() - began).as_secs(), 5);
    });
}

#[test]
fn a_closed_port_is_known_for_one_and_waited_for_all_the_same() {
    World::run(config(), |world| async move {
        let began = world.console.now();
        let (who, suite, privilege) = (admin(), CipherSuite::C17, Privilege::Administrator);
        let error = Client::connect(&world.console, "nobody", PORT, &who, suite, privilege, Retry::ONCE)
            .await
            .unwrap_err();
        assert_eq!(seen(&error), "refused: Get Channel Authentication Capabilities");
        assert_eq!((world.console.now() - began).as_secs(), 10);
    });
}

#[test]
fn a_refused_privilege_ends_the_session() {
    World::run(config(), |world| async move {
        world.intercept(NetFn::APP, 0x3b, Reply::refuse(Completion::NODE_BUSY));
        let (error, took) = world.failure(&admin(), CipherSuite::C17, Retry::ONCE).await;
        assert_eq!((seen(&error).as_str(), took), ("Node busy", 0));
        assert_eq!(world.bmc(|bmc| bmc.server.sessions()), 0);
    });
}

#[test]
fn a_completion_code_is_an_answer_or_an_error_as_the_caller_likes() {
    World::run(config(), |world| async move {
        let mut client = world.connected(Retry::ONCE).await;
        world.intercept(NetFn::CHASSIS, 0x02, Reply::refuse(Completion::WRONG_STATE));
        let error = client.run(&ChassisControl(Control::Down)).await.unwrap_err();
        assert_eq!(seen(&error), "Command not supported in present state");
        let answer = client.request(NetFn(0x30), 0x99, &[1, 2, 3]).await.unwrap();
        assert_eq!((answer.completion, answer.data.len()), (Completion::INVALID_COMMAND, 0));
    });
}

#[test]
fn what_was_carried_out_is_not_carried_out_again_when_its_answer_is_lost() {
    World::run(config(), |world| async move {
        let mut client = world.connected(Retry::default()).await;
        let lost = Reply::Lost { completion: Completion::OK, data: Vec::new() };
        world.intercept(NetFn::CHASSIS, 0x02, lost);
        let began = world.console.now();
        client.run(&ChassisControl(Control::Cycle)).await.unwrap();
        assert_eq!((world.console.now() - began).as_secs(), 1);
        assert_eq!(world.bmc(|bmc| bmc.machine.cycles), 1);
        // The same command anew is another one.
        client.run(&ChassisControl(Control::Cycle)).await.unwrap();
        assert_eq!(world.bmc(|bmc| bmc.machine.cycles), 2);
    });
}

#[test]
fn an_idle_session_ends_after_a_minute() {
    World::run(config(), |world| async move {
        let mut client = world.connected(Retry::ONCE).await;
        world.console.sleep(Duration::from_secs(59)).await;
        client.run(&GetChassisStatus).await.unwrap();
        world.console.sleep(Duration::from_secs(61)).await;
        let error = client.run(&GetChassisStatus).await.unwrap_err();
        assert_eq!(seen(&error), "no answer: command 00/01");
        assert_eq!(world.bmc(|bmc| bmc.server.sessions()), 0);
    });
}

#[test]
fn failed_log_ins_use_sessions_up_until_they_expire() {
    World::run(Config { limit: 2, ..config() }, |world| async move {
        let wrong = Credentials::new("admin", "wrong").unwrap();
        for _ in 0..2 {
            world.failure(&wrong, CipherSuite::C17, Retry::ONCE).await;
        }
        let (error, _) = world.failure(&admin(), CipherSuite::C17, Retry::ONCE).await;
        assert_eq!(error.status(), Some(Status::InsufficientResources));
        world.console.sleep(Duration::from_secs(5)).await;
        world.connected(Retry::ONCE).await;
        assert_eq!(world.bmc(|bmc| bmc.server.sessions()), 1);
    });
}

#[test]
fn a_session_may_do_what_its_privilege_allows() {
    World::run(config(), |world| async move {
        let guest = Credentials::new("guest", "password").unwrap();
        let (suite, privilege) = (CipherSuite::C17, Privilege::User);
        let mut client = Client::connect(&world.console, "bmc", PORT, &guest, suite, privilege, Retry::ONCE)
            .await
            .unwrap();
        client.run(&GetChassisStatus).await.unwrap();
        let error = client.run(&ChassisControl(Control::Up)).await.unwrap_err();
        assert_eq!(seen(&error), "Insufficient privilege level");
        let error = client.run(&SetPrivilege(Privilege::Operator)).await.unwrap_err();
        assert!(matches!(error, ClientError::Completion { completion: Completion::EXCEEDS_LIMIT, .. }));
        assert!(!world.bmc(|bmc| bmc.machine.on));
    });
}

#[test]
fn a_password_is_the_one_in_force_at_log_in() {
    World::run(config(), |world| async move {
        let mut client = world.connected(Retry::ONCE).await;
        let changed = User { password: Secret::new("new").unwrap(), privilege: Privilege::Administrator };
        world.bmc(|bmc| bmc.users.insert("admin".to_owned(), changed));
        client.run(&GetChassisStatus).await.unwrap();
        let (error, _) = world.failure(&admin(), CipherSuite::C17, Retry::ONCE).await;
        assert_eq!(seen(&error), "wrong password");
        let new = Credentials::new("admin", "new").unwrap();
        world.connect(&new, CipherSuite::C17, Retry::ONCE).await.unwrap();
    });
}

#[test]
fn a_packet_that_comes_twice_is_answered_once() {
    World::run(config(), |world| async move {
        let mut client = world.connected(Retry::ONCE).await;
        client.run(&ChassisControl(Control::Cycle)).await.unwrap();
        let again = |bmc: &mut Bmc| {
            let Bmc { server, users, machine, datagrams } = bmc;
            let last = datagrams.last().unwrap();
            server.handle(Instant(Duration::from_secs(1)), ([127, 0, 0, 1], 9).into(), last, users, machine)
        };
        assert_eq!(world.bmc(again), Vec::<Vec<u8>>::new());
        assert_eq!(world.bmc(|bmc| bmc.machine.cycles), 1);
    });
}

#[test]
fn sessions_differ_from_each_other_and_repeat_with_the_seed() {
    let randoms = || {
        World::run(config(), |world| async move {
            for _ in 0..2 {
                world.connected(Retry::ONCE).await.close().await.unwrap();
            }
            let hello = |datagram: &Vec<u8>| match Datagram::decode(datagram) {
                Ok(Datagram::Session(packet)) if packet.kind == PayloadType::Rakp1 => {
                    Rakp1::decode(&packet.payload).ok()
                }
                Ok(_) | Err(_) => None,
            };
            world.bmc(|bmc| bmc.datagrams.iter().filter_map(hello).collect::<Vec<_>>())
        })
    };
    let first = randoms();
    assert_eq!(first.len(), 2);
    assert!(first[0].random != first[1].random && first[0].bmc != first[1].bmc);
    assert_eq!(first, randoms());
}

#[test]
fn a_ping_is_answered_by_a_pong() {
    World::run(config(), |world| async move {
        let ping = [6, 0, 0xff, 6, 0, 0, 0x11, 0xbe, 0x80, 0x2a, 0, 0];
        let pong = [
            6, 0, 0xff, 6, 0, 0, 0x11, 0xbe, 0x40, 0x2a, 0, 16, 0, 0, 0x11, 0xbe, 0, 0, 0, 0, 0x81, 0, 0, 0,
            0, 0, 0, 0,
        ];
        let socket = world.console.udp(0).await.unwrap();
        let bmc = world.console.resolve("bmc", PORT).await.unwrap();
        socket.send_to(&ping, bmc).await.unwrap();
        let mut buffer = [0; 64];
        let (length, from) = socket.recv_from(&mut buffer).await.unwrap();
        assert_eq!((&buffer[..length], from), (&pong[..], bmc));
    });
}
