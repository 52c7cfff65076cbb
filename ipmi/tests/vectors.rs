//! Packets of real clients, recorded on the wire: each must be understood whole, prove what it claims to know, and
//! come out the same, bit for bit, when it is made again.
//!
//! `vectors/*.jsonl` are recordings of ipmitool 1.8.19, freeipmi 1.6.10 and pyghmi 1.6.19 against two BMCs, one of
//! them OpenIPMI's `ipmi_sim` 2.0.33: one datagram a line, with what an independent decoder saw in it. The password is
//! `password`; K_G is `secretkg` where the file's name says `kg`.

use std::{collections::BTreeMap, fs, path::Path};

use ipmi::{
    CipherSuite, Secret, Status,
    keys::{Exchange, Keys},
    message::Message,
    packet::{Packet, PayloadType},
    rmcp::Datagram,
    setup::{OpenRequest, OpenResponse, Rakp1, Rakp2, Rakp3, Rakp4},
};
use serde_json::Value;

/// How many of each there must be, lest the test pass on nothing.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    files: usize,
    sealed: usize,
    proofs: usize,
    refusals: Vec<Status>,
}

#[test]
fn every_recorded_datagram_is_understood_and_made_again() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut seen = Seen::default();
    for path in paths {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let mut recording = Recording::new(&name, &mut seen);
        for (number, line) in fs::read_to_string(&path).unwrap().lines().enumerate() {
            recording.line(&format!("{name}:{}", number + 1), &serde_json::from_str(line).unwrap());
        }
        seen.files += 1;
    }
    let refusals = vec![Status::NoCipherSuite, Status::InsufficientResources];
    assert_eq!(seen, Seen { files: 19, sealed: 300, proofs: 49, refusals });
}

struct Recording<'a> {
    password: Secret,
    /// K_G, or else the password.
    secret: Secret,
    /// By the BMC's id of the session: what its set-up has shown so far.
    setups: BTreeMap<u32, (CipherSuite, Exchange)>,
    /// By the console's id: the BMC's of the newest session.
    newest: BTreeMap<u32, u32>,
    /// By either id.
    keys: BTreeMap<u32, Keys>,
    seen: &'a mut Seen,
}

impl<'a> Recording<'a> {
    fn new(name: &str, seen: &'a mut Seen) -> Self {
        let password = Secret::new("password").unwrap();
        let secret = if name.contains("-kg") { Secret::new("secretkg").unwrap() } else { password.clone() };
        let (setups, newest, keys) = Default::default();
        Self { password, secret, setups, newest, keys, seen }
    }

    fn line(&mut self, at: &str, line: &Value) {
        let bytes = unhex(line["hex"].as_str().unwrap());
        let datagram = Datagram::decode(&bytes).unwrap_or_else(|error| panic!("{at}: {error}"));
        assert_eq!(hex(&datagram.encode()), hex(&bytes), "{at}");
        match datagram {
            Datagram::Sessionless(message) => check_message(at, line, &message),
            Datagram::Session(packet) => self.packet(at, line, &packet),
            Datagram::Ping { .. } | Datagram::Pong { .. } => panic!("{at}: no client pinged"),
        }
    }

    fn packet(&mut self, at: &str, line: &Value, packet: &Packet) {
        let payload = &packet.payload;
        let again = match packet.kind {
            PayloadType::OpenRequest => OpenRequest::decode(payload).unwrap().encode(),
            PayloadType::OpenResponse => self.opened(&OpenResponse::decode(payload).unwrap()),
            PayloadType::Rakp1 => self.hello(&Rakp1::decode(payload).unwrap()),
            PayloadType::Rakp2 => self.challenge(at, &Rakp2::decode(payload).unwrap()),
            PayloadType::Rakp3 => self.proof(at, &Rakp3::decode(payload).unwrap()),
            PayloadType::Rakp4 => self.check(at, &Rakp4::decode(payload).unwrap()),
            PayloadType::Ipmi if packet.session == 0 => {
                check_message(at, line, payload);
                return;
            }
            PayloadType::Ipmi => return self.sealed(at, line, packet),
            PayloadType::Sol => panic!("{at}: no client used serial over LAN"),
        };
        assert_eq!(hex(&again), hex(payload), "{at}");
    }

    fn opened(&mut self, response: &OpenResponse) -> Vec<u8> {
        match &response.outcome {
            Ok(opened) => {
                let suite = CipherSuite::ALL.into_iter().find(|suite| opened.proposal == suite.proposal());
                let exchange = Exchange {
                    console: response.console,
                    bmc: opened.bmc,
                    console_random: [0; 16],
                    bmc_random: [0; 16],
                    guid: [0; 16],
                    role: 0,
                    user: Vec::new(),
                };
                self.setups.insert(opened.bmc, (suite.unwrap(), exchange));
                self.newest.insert(response.console, opened.bmc);
            }
            Err(status) => self.seen.refusals.push(*status),
        }
        response.encode()
    }

    fn hello(&mut self, hello: &Rakp1) -> Vec<u8> {
        let (_, exchange) = self.setups.get_mut(&hello.bmc).unwrap();
        exchange.console_random = hello.random;
        exchange.role = hello.role;
        exchange.user.clone_from(&hello.user);
        hello.encode()
    }

    fn challenge(&mut self, at: &str, response: &Rakp2) -> Vec<u8> {
        let challenge = response.outcome.as_ref().unwrap();
        let (suite, exchange) = self.setups.get_mut(&self.newest[&response.console]).unwrap();
        exchange.bmc_random = challenge.random;
        exchange.guid = challenge.guid;
        let code = exchange.rakp2(suite.authentication(), &self.password);
        assert_eq!(hex(&code), hex(&challenge.code), "{at}");
        self.seen.proofs += 1;
        response.encode()
    }

    fn proof(&mut self, at: &str, proof: &Rakp3) -> Vec<u8> {
        let (suite, exchange) = &self.setups[&proof.bmc];
        let code = exchange.rakp3(suite.authentication(), &self.password);
        assert_eq!(hex(&code), hex(proof.outcome.as_ref().unwrap()), "{at}");
        self.seen.proofs += 1;
        proof.encode()
    }

    fn check(&mut self, at: &str, response: &Rakp4) -> Vec<u8> {
        let (suite, exchange) = &self.setups[&self.newest[&response.console]];
        let keys = Keys::derive(*suite, exchange, &self.secret);
        assert_eq!(hex(&keys.rakp4(exchange)), hex(response.outcome.as_ref().unwrap()), "{at}");
        self.seen.proofs += 1;
        self.keys.insert(exchange.console, keys.clone());
        self.keys.insert(exchange.bmc, keys);
        response.encode()
    }

    fn sealed(&mut self, at: &str, line: &Value, packet: &Packet) {
        let keys = &self.keys[&packet.session];
        let plain = keys.open(packet).unwrap_or_else(|error| panic!("{at}: {error}"));
        assert_eq!(hex(&plain), line["plain"].as_str().unwrap(), "{at}");
        let iv = *packet.payload.first_chunk().unwrap();
        let again = keys.seal(packet.kind, packet.session, packet.sequence, &plain, iv);
        assert_eq!(&again, packet, "{at}");
        check_message(at, line, &plain);
        self.seen.sealed += 1;
    }
}

fn check_message(at: &str, line: &Value, bytes: &[u8]) {
    let message = Message::decode(bytes).unwrap_or_else(|error| panic!("{at}: {error}"));
    assert_eq!(hex(&message.encode()), hex(bytes), "{at}");
    assert_eq!(line["netfn"], message.net_fn.0, "{at}");
    assert_eq!(line["cmd"], message.command, "{at}");
    assert_eq!(line["data"], hex(&message.data), "{at}");
    if let Some(sequence) = line["rqseq"].as_u64() {
        assert_eq!(sequence, u64::from(message.sequence), "{at}");
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    text.as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}
