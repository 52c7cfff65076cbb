//! Open Session and RAKP, as the console sees them (13.17 to 13.23).

use rand::Rng as _;

use super::{ClientError, Stage, link::Link};
use crate::{
    CipherSuite, Credentials, DecodeError, Privilege,
    cipher::same,
    keys::{Exchange, Keys},
    packet::{Packet, PayloadType},
    rmcp::Datagram,
    setup::{
        Challenge, NAME_ONLY, OpenRequest, OpenResponse, Opened, Outcome, Rakp1, Rakp2, Rakp3, Rakp4, Step,
    },
};

/// How often ipmitool begins anew when a step of set-up is not answered, each time from Open Session.
const ROUNDS: u32 = 4;

/// What is known of an active session.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) console: u32,
    pub(super) bmc: u32,
    pub(super) keys: Keys,
    /// Of the last packet that was sent.
    pub(super) sequence: u32,
    /// Of the last request that was sent.
    pub(super) requests: u8,
    pub(super) dice: wire::Dice,
}

/// Sets a session up; its privilege is still that of a user.
pub(super) async fn login(
    link: &Link,
    mut dice: wire::Dice,
    credentials: &Credentials,
    suite: CipherSuite,
    privilege: Privilege,
) -> Result<Session, ClientError> {
    let mut round = 1;
    loop {
        match attempt(link, &mut dice, credentials, suite, privilege).await {
            Err(error) if error.is_silence() && round < ROUNDS => round += 1,
            Err(error) => return Err(error),
            Ok((exchange, keys)) => {
                let Exchange { console, bmc, .. } = exchange;
                return Ok(Session { console, bmc, keys, sequence: 0, requests: 0, dice });
            }
        }
    }
}

async fn attempt(
    link: &Link,
    dice: &mut wire::Dice,
    credentials: &Credentials,
    suite: CipherSuite,
    privilege: Privilege,
) -> Result<(Exchange, Keys), ClientError> {
    // An id of 0 would mean "no session".
    let console = dice.next_u32().max(1);
    let opened = open(link, console, suite).await?;
    let mut console_random = [0; 16];
    dice.fill_bytes(&mut console_random);
    let role = NAME_ONLY | privilege.number();
    let user = credentials.user().as_bytes().to_vec();
    let hello = Rakp1 { tag: 0, bmc: opened.bmc, random: console_random, role, user: user.clone() };
    let challenge = challenge(link, console, &hello).await?;
    let exchange = Exchange {
        console,
        bmc: opened.bmc,
        console_random,
        bmc_random: challenge.random,
        guid: challenge.guid,
        role,
        user,
    };
    // Like ipmitool, this does not tell the BMC, whose half-open session stays until it gives it up.
    if !same(&challenge.code, &exchange.rakp2(suite.authentication(), credentials.password())) {
        return Err(ClientError::WrongPassword);
    }
    let proof = exchange.rakp3(suite.authentication(), credentials.password());
    let check = activate(link, console, &Rakp3 { tag: 0, bmc: opened.bmc, outcome: Ok(proof) }).await?;
    let keys = Keys::derive(suite, &exchange, credentials.session_secret());
    if !same(&check, &keys.rakp4(&exchange)) {
        return Err(ClientError::WrongKey);
    }
    Ok((exchange, keys))
}

async fn open(link: &Link, console: u32, suite: CipherSuite) -> Result<Opened, ClientError> {
    let request = OpenRequest { tag: 0, privilege: 0, console, proposal: suite.proposal() };
    let sent = Packet::plain(PayloadType::OpenRequest, request.encode());
    let opened = step(link, Step::Open, sent, console, PayloadType::OpenResponse, |payload| {
        OpenResponse::decode(payload).map(|response| (response.console, response.outcome))
    })
    .await?;
    // A BMC that chose other algorithms than the only ones it was offered makes no sense.
    if opened.proposal != suite.proposal() {
        let source =
            DecodeError::Value { field: "choice of algorithms for cipher suite", value: suite.number() };
        return Err(ClientError::Malformed { stage: Stage::Setup(Step::Open), source });
    }
    Ok(opened)
}

async fn challenge(link: &Link, console: u32, hello: &Rakp1) -> Result<Challenge, ClientError> {
    let sent = Packet::plain(PayloadType::Rakp1, hello.encode());
    step(link, Step::Rakp1, sent, console, PayloadType::Rakp2, |payload| {
        Rakp2::decode(payload).map(|response| (response.console, response.outcome))
    })
    .await
}

async fn activate(link: &Link, console: u32, proof: &Rakp3) -> Result<Vec<u8>, ClientError> {
    let sent = Packet::plain(PayloadType::Rakp3, proof.encode());
    step(link, Step::Rakp3, sent, console, PayloadType::Rakp4, |payload| {
        Rakp4::decode(payload).map(|response| (response.console, response.outcome))
    })
    .await
}

/// Sends a message of set-up until the BMC answers it.
async fn step<T>(
    link: &Link,
    step: Step,
    sent: Packet,
    console: u32,
    wanted: PayloadType,
    decode: impl Fn(&[u8]) -> Result<(u32, Outcome<T>), DecodeError>,
) -> Result<T, ClientError> {
    let datagram = Datagram::Session(sent).encode();
    let outcome = link
        .exchange(
            Stage::Setup(step),
            || datagram.clone(),
            |datagram| {
                let Datagram::Session(packet) = datagram else { return None };
                let (id, outcome) = decode(&packet.payload).ok().filter(|_| packet.kind == wanted)?;
                // A BMC that knows no such session can't know the console's id of it either.
                (id == console || id == 0 && outcome.is_err()).then_some(outcome)
            },
        )
        .await?;
    outcome.map_err(|status| ClientError::Setup { step, status })
}
