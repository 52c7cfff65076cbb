//! A BMC's end of IPMI over LAN: sessions, as a pure machine from datagrams to datagrams.
//!
//! [`Server`] answers what is about sessions by itself (what it can do, set-up, privilege, close) and hands every
//! other command to a [`Responder`], the machine behind it. A responder can also stand in the way of anything: see
//! [`Responder::intercept`] and [`Responder::obstruct`]; faults live there.

mod commands;
mod session;
mod setup;

use std::{collections::BTreeMap, io, net::SocketAddr, time::Duration};

use rand::Rng as _;
use wire::{Host, Instant, UdpSocket};

pub use self::session::Window;
use self::session::{Session, State};
use crate::{
    CipherSuite, Completion, LARGEST_DATAGRAM, NetFn, Privilege, Secret, Status,
    cipher::Integrity,
    message::Message,
    packet::{Packet, PayloadType},
    rmcp::Datagram,
    setup::Step,
};

/// How a server is set up.
#[derive(Clone, Debug)]
pub struct Config {
    /// The machine's id.
    pub guid: [u8; 16],
    /// The BMC's own key K_G, if one is set; else users' passwords stand in for it (13.33).
    pub kg: Option<Secret>,
    /// The cipher suites to be had, the one to be chosen first at the front.
    pub suites: Vec<CipherSuite>,
    /// The most sessions, active and half-open ones together.
    pub limit: usize,
    /// The highest privilege to be had over the LAN.
    pub privilege: Privilege,
    /// How long an active session lives without a packet.
    pub idle: Duration,
    /// How long a half-open session lives.
    pub half_open: Duration,
}

impl Config {
    /// A BMC with suites 17 and 3 and 15 sessions. An idle session ends after 60 s (6.12.15), a half-open one after
    /// 5 s, as on OpenBMC.
    pub fn new(guid: [u8; 16]) -> Self {
        Self {
            guid,
            kg: None,
            suites: vec![CipherSuite::C17, CipherSuite::C3],
            limit: 15,
            privilege: Privilege::Administrator,
            idle: Duration::from_secs(60),
            half_open: Duration::from_secs(5),
        }
    }
}

/// Who may log in, by name.
pub type Users = BTreeMap<String, User>;

/// Someone who may log in.
#[derive(Clone, Debug)]
pub struct User {
    /// The password.
    pub password: Secret,
    /// The highest privilege that the user may have.
    pub privilege: Privilege,
}

/// A command as it came in.
#[derive(Clone, Copy, Debug)]
pub struct Incoming<'a> {
    /// When.
    pub now: Instant,
    /// From where.
    pub peer: SocketAddr,
    /// Of whom; `None` outside sessions.
    pub user: Option<&'a str>,
    /// The session's privilege; `None` outside sessions.
    pub privilege: Option<Privilege>,
    /// Its family.
    pub net_fn: NetFn,
    /// Its number in the family.
    pub command: u8,
    /// What follows.
    pub data: &'a [u8],
}

/// What comes of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// An answer.
    Answer {
        /// How it went.
        completion: Completion,
        /// What follows.
        data: Vec<u8>,
    },
    /// The command was carried out, and its answer is lost on the way. A resent command gets this answer, and is not
    /// carried out again.
    Lost {
        /// How it went.
        completion: Completion,
        /// What follows.
        data: Vec<u8>,
    },
    /// No answer, as if the command had never come.
    Silence,
}

impl Reply {
    /// A successful answer.
    pub fn ok(data: impl Into<Vec<u8>>) -> Self {
        Self::Answer { completion: Completion::OK, data: data.into() }
    }

    /// An answer that is a completion code alone.
    pub fn refuse(completion: Completion) -> Self {
        Self::Answer { completion, data: Vec::new() }
    }
}

/// What stands in the way of session set-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// No answer, as if the message had never come.
    Silence,
    /// The session is refused.
    Refuse(Status),
    /// The code of RAKP message 2 or 4 is wrong; the BMC believes the session is fine. Nothing at Open Session, which
    /// has no code.
    WrongCode,
}

/// The machine behind a server.
pub trait Responder {
    /// Carries out a command of a session that has the privilege for it.
    fn respond(&mut self, command: &Incoming<'_>) -> Reply;

    /// Is asked first about each command, also about those that the server answers by itself and those outside
    /// sessions; what it returns becomes of the command. For faults.
    fn intercept(&mut self, _command: &Incoming<'_>) -> Option<Reply> {
        None
    }

    /// Is asked first about each step of session set-up. For faults.
    fn obstruct(&mut self, _now: Instant, _peer: SocketAddr, _step: Step) -> Option<Obstacle> {
        None
    }
}

/// A BMC's sessions.
#[derive(Debug)]
pub struct Server {
    config: Config,
    dice: wire::Dice,
    /// By the BMC's own id of them. The console's ids are no keys: every ipmitool uses the same.
    sessions: BTreeMap<u32, Session>,
}

/// What a datagram comes with.
struct Call<'a> {
    now: Instant,
    peer: SocketAddr,
    users: &'a Users,
    bmc: &'a mut dyn Responder,
}

impl Server {
    /// A server without sessions. `dice` give session ids, random numbers and initialization vectors.
    pub fn new(config: Config, dice: wire::Dice) -> Self {
        Self { config, dice, sessions: BTreeMap::new() }
    }

    /// The set-up, which may change at any time; existing sessions go on.
    pub fn config_mut(&mut self) -> &mut Config {
        &mut self.config
    }

    /// How many sessions there are, half-open ones included.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Forgets all sessions, as a BMC that restarts.
    pub fn reset(&mut self) {
        self.sessions.clear();
    }

    /// Handles one datagram; what it returns is to be sent back to `peer`, in this order.
    ///
    /// What makes no sense, and what belongs to no session, is not answered.
    pub fn handle(
        &mut self,
        now: Instant,
        peer: SocketAddr,
        datagram: &[u8],
        users: &Users,
        bmc: &mut dyn Responder,
    ) -> Vec<Vec<u8>> {
        self.expire(now);
        let mut call = Call { now, peer, users, bmc };
        let answer = match Datagram::decode(datagram) {
            Ok(Datagram::Ping { tag }) => Some(Datagram::Pong { tag }),
            Ok(Datagram::Sessionless(message)) => {
                self.sessionless(&mut call, &message).map(Datagram::Sessionless)
            }
            Ok(Datagram::Session(packet)) => self.packet(&mut call, &packet).map(Datagram::Session),
            Ok(Datagram::Pong { .. }) | Err(_) => None,
        };
        answer.into_iter().map(|answer| answer.encode()).collect()
    }

    fn expire(&mut self, now: Instant) {
        let Config { idle, half_open, .. } = self.config;
        self.sessions.retain(|_, session| {
            let limit = match session.state {
                State::Opened | State::Challenged(_) => half_open,
                State::Active(_) => idle,
            };
            now.since(session.heard) < limit
        });
    }

    fn packet(&mut self, call: &mut Call<'_>, packet: &Packet) -> Option<Packet> {
        match packet.kind {
            PayloadType::OpenRequest => self.open(call, &packet.payload),
            PayloadType::Rakp1 => self.challenge(call, &packet.payload),
            PayloadType::Rakp3 => self.activate(call, &packet.payload),
            PayloadType::Ipmi if packet.session == 0 => {
                let answer = self.sessionless(call, &packet.payload)?;
                Some(Packet::plain(PayloadType::Ipmi, answer))
            }
            PayloadType::Ipmi => self.in_session(call, packet),
            // Serial over LAN is not to be had; the others are ours to send.
            PayloadType::Sol | PayloadType::OpenResponse | PayloadType::Rakp2 | PayloadType::Rakp4 => None,
        }
    }

    /// Handles a message outside any session.
    fn sessionless(&self, call: &mut Call<'_>, message: &[u8]) -> Option<Vec<u8>> {
        let message = Message::decode(message).ok().filter(|message| !message.net_fn.is_response())?;
        match commands::outside(&self.config, call, &message) {
            Reply::Answer { completion, data } => Some(message.response(completion, &data).encode()),
            Reply::Lost { .. } | Reply::Silence => None,
        }
    }

    /// Handles a packet of an active session.
    fn in_session(&mut self, call: &mut Call<'_>, packet: &Packet) -> Option<Packet> {
        let session = self.sessions.get_mut(&packet.session)?;
        let State::Active(active) = &mut session.state else { return None };
        let bytes = active.keys.open(packet).ok()?;
        // What is not authenticated is not counted either (6.12.12).
        if session.suite.integrity() != Integrity::None && !active.window.accept(packet.sequence) {
            return None;
        }
        session.heard = call.now;
        let message = Message::decode(&bytes).ok().filter(|message| !message.net_fn.is_response())?;
        let (answer, close) = match active.repeated(&message) {
            // A power cycle that is asked for again because its answer was lost must not happen twice.
            Some(answer) => (answer, None),
            None => {
                let done = commands::inside(&self.config, call, packet.session, active, &message);
                let (answer, lost) = match done.reply {
                    Reply::Answer { completion, data } => (message.response(completion, &data), false),
                    Reply::Lost { completion, data } => (message.response(completion, &data), true),
                    Reply::Silence => return None,
                };
                active.remember(&message, &answer);
                ((!lost).then_some(answer), done.close)
            }
        };
        let sealed = answer.map(|answer| {
            let mut iv = [0; 16];
            self.dice.fill_bytes(&mut iv);
            active.seal(session.console, &answer.encode(), iv)
        });
        if let Some(id) = close {
            self.sessions.remove(&id);
        }
        sealed
    }
}

/// Receives datagrams and sends what `handle` returns for each, for as long as the host lives. Returns only when the
/// socket fails.
pub async fn serve_on(
    host: &Host,
    socket: &UdpSocket,
    mut handle: impl FnMut(Instant, SocketAddr, &[u8]) -> Vec<Vec<u8>>,
) -> io::Error {
    let mut buffer = [0; LARGEST_DATAGRAM];
    loop {
        let (length, peer) = match socket.recv_from(&mut buffer).await {
            Ok(received) => received,
            Err(error) if is_of_one_client(&error) => continue,
            Err(error) => return error,
        };
        for answer in handle(host.now(), peer, &buffer[..length]) {
            match socket.send_to(&answer, peer).await {
                Ok(_) => {}
                Err(error) if is_of_one_client(&error) => {}
                Err(error) => return error,
            }
        }
    }
}

/// A client that is gone, or that can't be reached, is no trouble of the server's.
fn is_of_one_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, ConnectionReset, HostUnreachable, NetworkUnreachable};
    matches!(error.kind(), ConnectionRefused | ConnectionReset | HostUnreachable | NetworkUnreachable)
}
