//! Bytes that nobody vouches for: no datagram, however wrong, makes the parsers or the server panic, and what they
//! understand comes out as it came in.

use std::net::{Ipv4Addr, SocketAddr};

use ipmi::{
    CipherSuite, Completion, NetFn, Privilege, Secret,
    command::Request,
    keys::{Exchange, Keys},
    message::Message,
    packet::{Packet, PayloadType},
    rmcp::Datagram,
    server::{Config, Incoming, Reply, Responder, Server, User, Users},
    setup::{OpenRequest, OpenResponse, Proposal, Rakp1, Rakp2, Rakp3, Rakp4},
};
use proptest::{collection::vec, prelude::*};

struct Nothing;

impl Responder for Nothing {
    fn respond(&mut self, _: &Incoming<'_>) -> Reply {
        Reply::refuse(Completion::INVALID_COMMAND)
    }
}

fn handle(server: &mut Server, datagram: &[u8]) -> Vec<Vec<u8>> {
    let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    let user = User { password: Secret::new("password").unwrap(), privilege: Privilege::Administrator };
    let users = Users::from([("admin".to_owned(), user)]);
    server.handle(wire::Instant::default(), peer, datagram, &users, &mut Nothing)
}

fn server() -> Server {
    Server::new(Config::new([7; 16]), wire::Seed(1).stream("bmc", "test"))
}

/// A datagram that gets past the first checks: a right RMCP header and payload type, then anything.
fn plausible() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop_oneof![Just(0x00_u8), Just(0x01), 0x10..0x16_u8];
    let payload = vec(any::<u8>(), 0..64);
    (kind, any::<bool>(), any::<bool>(), any::<u32>(), any::<u32>(), payload, vec(any::<u8>(), 0..24))
        .prop_map(|(kind, encrypted, authenticated, session, sequence, payload, trailer)| {
            let flags = u8::from(encrypted) << 7 | u8::from(authenticated) << 6;
            let mut bytes = vec![0x06, 0, 0xff, 0x07, 0x06, flags | kind];
            bytes.extend(session.to_le_bytes());
            bytes.extend(sequence.to_le_bytes());
            bytes.extend((payload.len() as u16).to_le_bytes());
            bytes.extend(payload);
            bytes.extend(trailer);
            bytes
        })
}

fn suite() -> impl Strategy<Value = CipherSuite> {
    proptest::sample::select(&CipherSuite::ALL[..])
}

fn exchange() -> impl Strategy<Value = Exchange> {
    (any::<[u8; 16]>(), any::<[u8; 16]>(), any::<u32>(), any::<u32>(), vec(any::<u8>(), 0..=16)).prop_map(
        |(console_random, bmc_random, console, bmc, user)| Exchange {
            console,
            bmc,
            console_random,
            bmc_random,
            guid: [9; 16],
            role: 0x14,
            user,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_datagram_makes_a_server_panic(datagrams in vec(prop_oneof![vec(any::<u8>(), 0..96), plausible()], 1..8)) {
        let mut server = server();
        for datagram in datagrams {
            handle(&mut server, &datagram);
        }
    }

    #[test]
    fn what_is_understood_is_made_again(bytes in plausible()) {
        if let Ok(Datagram::Session(packet)) = Datagram::decode(&bytes) {
            let again = Datagram::Session(packet).encode();
            // What follows an unauthenticated payload is nobody's.
            prop_assert_eq!(&again[..], &bytes[..again.len()]);
        }
    }

    #[test]
    fn no_payload_makes_a_parser_panic(bytes in vec(any::<u8>(), 0..64)) {
        let _ = (OpenRequest::decode(&bytes), OpenResponse::decode(&bytes), Rakp1::decode(&bytes));
        let _ = (Rakp2::decode(&bytes), Rakp3::decode(&bytes), Rakp4::decode(&bytes));
        let _ = (Message::decode(&bytes), Datagram::decode(&bytes));
        for (net_fn, command) in [(0, 1), (0, 2), (0, 8), (0, 9), (6, 1)] {
            let _ = Request::parse(NetFn(net_fn), command, &bytes);
        }
    }

    #[test]
    fn a_message_survives_its_bytes(
        net_fn in 0..64_u8, sequence in 0..64_u8, command: u8, data in vec(any::<u8>(), 0..64),
    ) {
        let message = Message::request(sequence, NetFn(net_fn), command, &data);
        prop_assert_eq!(Message::decode(&message.encode()), Ok(message));
    }

    #[test]
    fn a_sealed_payload_opens_for_its_keys_alone(
        suite in suite(), exchange in exchange(), payload in vec(any::<u8>(), 0..80), iv: [u8; 16],
    ) {
        let keys = Keys::derive(suite, &exchange, &Secret::new("right").unwrap());
        let packet = keys.seal(PayloadType::Ipmi, 5, 6, &payload, iv);
        prop_assert_eq!(keys.open(&packet), Ok(payload.clone()));
        let sent = Datagram::Session(packet.clone()).encode();
        prop_assert_eq!(Datagram::decode(&sent), Ok(Datagram::Session(packet.clone())));
        if packet.trailer.is_some() {
            let other = Keys::derive(suite, &exchange, &Secret::new("wrong").unwrap());
            prop_assert!(other.open(&packet).is_err());
        }
    }

    #[test]
    fn a_changed_bit_is_noticed(exchange in exchange(), payload in vec(any::<u8>(), 7..40), at: prop::sample::Index, bit in 0..8_u8) {
        for suite in [CipherSuite::C3, CipherSuite::C17] {
            let keys = Keys::derive(suite, &exchange, &Secret::new("right").unwrap());
            let mut bytes = Datagram::Session(keys.seal(PayloadType::Ipmi, 5, 6, &payload, [3; 16])).encode();
            // The RMCP header and the authentication type are in front of what the code covers or fix it.
            let at = 5 + at.index(bytes.len() - 5);
            bytes[at] ^= 1 << bit;
            let opened = Datagram::decode(&bytes).ok().and_then(|datagram| match datagram {
                Datagram::Session(packet) => keys.open(&packet).ok(),
                _ => None,
            });
            prop_assert_eq!(opened, None);
        }
    }
}

#[test]
fn a_login_that_offers_no_algorithms_gets_the_servers_favourite() {
    let proposal = Proposal { authentication: None, integrity: None, confidentiality: None };
    let request = OpenRequest { tag: 3, privilege: 0, console: 9, proposal };
    let datagram = Datagram::Session(Packet::plain(PayloadType::OpenRequest, request.encode())).encode();
    let answers = handle(&mut server(), &datagram);
    let [answer] = &answers[..] else { panic!("{} answers", answers.len()) };
    let Ok(Datagram::Session(packet)) = Datagram::decode(answer) else { panic!("not a packet") };
    let response = OpenResponse::decode(&packet.payload).unwrap();
    assert_eq!((response.tag, response.console), (3, 9));
    assert_eq!(response.outcome.unwrap().proposal, CipherSuite::C17.proposal());
}
