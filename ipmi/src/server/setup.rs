//! Open Session and RAKP, as the BMC sees them (13.17 to 13.24).

use rand::Rng as _;

use super::{
    Call, Config, Obstacle, Server,
    session::{Active, Challenged, Session, State},
};
use crate::{
    Privilege, Status,
    cipher::same,
    keys::{Exchange, Keys},
    packet::{Packet, PayloadType},
    setup::{Challenge, OpenRequest, OpenResponse, Opened, Outcome, Rakp1, Rakp2, Rakp3, Rakp4, Step},
};

/// What a step may do, once the responder was asked.
struct Leave {
    /// Its code is to be wrong.
    wrong_code: bool,
}

/// Asks the responder; `None` is silence.
fn leave(call: &mut Call<'_>, step: Step) -> Option<Outcome<Leave>> {
    match call.bmc.obstruct(call.now, call.peer, step) {
        None => Some(Ok(Leave { wrong_code: false })),
        Some(Obstacle::WrongCode) => Some(Ok(Leave { wrong_code: true })),
        Some(Obstacle::Refuse(status)) => Some(Err(status)),
        Some(Obstacle::Silence) => None,
    }
}

/// The code as it is sent.
fn code(code: &[u8], leave: &Leave) -> Vec<u8> {
    if leave.wrong_code { code.iter().map(|byte| !byte).collect() } else { code.to_vec() }
}

impl Server {
    pub(super) fn open(&mut self, call: &mut Call<'_>, payload: &[u8]) -> Option<Packet> {
        let request = OpenRequest::decode(payload).ok()?;
        let OpenRequest { tag, console, .. } = request;
        let outcome = leave(call, Step::Open)?.and_then(|_| self.opened(call, &request));
        let response = OpenResponse { tag, console, outcome };
        Some(Packet::plain(PayloadType::OpenResponse, response.encode()))
    }

    fn opened(&mut self, call: &Call<'_>, request: &OpenRequest) -> Outcome<Opened> {
        let Config { suites, limit, privilege, .. } = &self.config;
        let suite = suites
            .iter()
            .copied()
            .find(|suite| request.proposal.admits(*suite))
            .ok_or(Status::NoCipherSuite)?;
        let wanted = Privilege::from_number(request.privilege).map_err(|_| Status::InvalidRole)?;
        let privilege = wanted.map_or(*privilege, |wanted| wanted.min(*privilege));
        if self.sessions.len() >= *limit {
            return Err(Status::InsufficientResources);
        }
        let bmc = loop {
            let id = self.dice.next_u32();
            if id != 0 && !self.sessions.contains_key(&id) {
                break id;
            }
        };
        let console = request.console;
        let session = Session { console, suite, privilege, heard: call.now, state: State::Opened };
        self.sessions.insert(bmc, session);
        Ok(Opened { privilege: privilege.number(), bmc, proposal: suite.proposal() })
    }

    pub(super) fn challenge(&mut self, call: &mut Call<'_>, payload: &[u8]) -> Option<Packet> {
        let hello = Rakp1::decode(payload).ok()?;
        let console = self.sessions.get(&hello.bmc).map_or(0, |session| session.console);
        let outcome = leave(call, Step::Rakp1)?.and_then(|leave| {
            let mut challenge = self.challenged(call, &hello)?;
            challenge.code = code(&challenge.code, &leave);
            Ok(challenge)
        });
        if outcome.is_err() {
            self.forget_half_open(hello.bmc);
        }
        let response = Rakp2 { tag: hello.tag, console, outcome };
        Some(Packet::plain(PayloadType::Rakp2, response.encode()))
    }

    fn challenged(&mut self, call: &Call<'_>, hello: &Rakp1) -> Outcome<Challenge> {
        let Self { config, dice, sessions } = self;
        let session = sessions.get_mut(&hello.bmc).ok_or(Status::InvalidSessionId)?;
        match &session.state {
            State::Active(_) => return Err(Status::InvalidSessionId),
            // A console whose answer was lost must get the same again, lest it mix two challenges.
            State::Challenged(earlier) if is_of(&earlier.exchange, hello) => {
                let Challenged { exchange, code, .. } = &**earlier;
                return Ok(Challenge {
                    random: exchange.bmc_random,
                    guid: exchange.guid,
                    code: code.clone(),
                });
            }
            State::Challenged(_) | State::Opened => {}
        }
        let name = std::str::from_utf8(&hello.user).map_err(|_| Status::UnauthorizedName)?;
        let user = call.users.get(name).ok_or(Status::UnauthorizedName)?;
        let wanted = Privilege::from_number(hello.role).map_err(|_| Status::InvalidRole)?;
        let highest = user.privilege.min(session.privilege);
        if wanted.is_some_and(|wanted| wanted > highest) {
            return Err(Status::UnauthorizedRole);
        }
        let mut bmc_random = [0; 16];
        dice.fill_bytes(&mut bmc_random);
        let exchange = Exchange {
            console: session.console,
            bmc: hello.bmc,
            console_random: hello.random,
            bmc_random,
            guid: config.guid,
            role: hello.role,
            user: hello.user.clone(),
        };
        let algorithm = session.suite.authentication();
        let code = exchange.rakp2(algorithm, &user.password);
        let challenge = Challenge { random: bmc_random, guid: config.guid, code: code.clone() };
        session.heard = call.now;
        session.state = State::Challenged(Box::new(Challenged {
            user: name.to_owned(),
            limit: wanted.unwrap_or(highest),
            code,
            proof: exchange.rakp3(algorithm, &user.password),
            keys: Keys::derive(session.suite, &exchange, config.kg.as_ref().unwrap_or(&user.password)),
            exchange,
        }));
        Ok(challenge)
    }

    pub(super) fn activate(&mut self, call: &mut Call<'_>, payload: &[u8]) -> Option<Packet> {
        let proof = Rakp3::decode(payload).ok()?;
        let Ok(given) = &proof.outcome else {
            // The console gives up, and wants no answer.
            self.forget_half_open(proof.bmc);
            return None;
        };
        let console = self.sessions.get(&proof.bmc).map_or(0, |session| session.console);
        let outcome = leave(call, Step::Rakp3)?.and_then(|leave| {
            let check = self.activated(call, proof.bmc, given)?;
            Ok(code(&check, &leave))
        });
        if outcome.is_err() {
            self.forget_half_open(proof.bmc);
        }
        let response = Rakp4 { tag: proof.tag, console, outcome };
        Some(Packet::plain(PayloadType::Rakp4, response.encode()))
    }

    fn activated(&mut self, call: &Call<'_>, bmc: u32, given: &[u8]) -> Outcome<Vec<u8>> {
        let session = self.sessions.get_mut(&bmc).ok_or(Status::InvalidSessionId)?;
        let challenged = match &session.state {
            State::Opened => return Err(Status::InvalidSessionId),
            // The answer was lost and is asked for again.
            State::Active(active) => {
                let (proof, check) = &active.activation;
                return if same(proof, given) { Ok(check.clone()) } else { Err(Status::InvalidSessionId) };
            }
            State::Challenged(challenged) => challenged,
        };
        if !same(&challenged.proof, given) {
            return Err(Status::InvalidIntegrityCheck);
        }
        let check = challenged.keys.rakp4(&challenged.exchange);
        if let State::Challenged(challenged) = std::mem::replace(&mut session.state, State::Opened) {
            session.state = State::Active(Box::new(Active::new(*challenged, check.clone())));
        }
        session.heard = call.now;
        Ok(check)
    }

    /// A session whose set-up failed is free again. An active one is not touched: what failed was not its own.
    fn forget_half_open(&mut self, bmc: u32) {
        if self.sessions.get(&bmc).is_some_and(|session| !matches!(session.state, State::Active(_))) {
            self.sessions.remove(&bmc);
        }
    }
}

/// Whether a challenge was the answer to this very RAKP message 1.
fn is_of(exchange: &Exchange, hello: &Rakp1) -> bool {
    exchange.console_random == hello.random && exchange.role == hello.role && exchange.user == hello.user
}
