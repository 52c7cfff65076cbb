//! A client that behaves on the wire like one `ipmitool -I lanplus` process.
//!
//! [`Client::connect`] asks what the BMC can do, logs in and raises the privilege; [`Client::request`] and
//! [`Client::run`] send commands; [`Client::close`] ends the session. A client that is dropped leaves its session
//! open on the BMC until that gives it up, as a killed `ipmitool` does. Waits and resends are those of ipmitool
//! 1.8.19, measured against silent and half-deaf BMCs.

mod error;
mod link;
mod login;

use std::time::Duration;

use rand::Rng as _;

pub use error::{ClientError, Stage};

use self::{link::Link, login::Session};
use crate::{
    CipherSuite, Completion, Credentials, DecodeError, NetFn, Privilege,
    command::{CloseSession, Command, GetAuthenticationCapabilities, GetDeviceId, SetPrivilege},
    message::Message,
    packet::PayloadType,
    rmcp::Datagram,
};

/// How often a datagram is sent and how long an answer is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// How long the first attempt waits (`ipmitool -N`); each further one waits a second longer than the one before.
    pub interval: Duration,
    /// How often a datagram is sent (`ipmitool -R`); at least once.
    pub attempts: u32,
}

impl Retry {
    /// What Ironic gives ipmitool when it retries by itself (`use_ipmitool_retries = false`): one lost datagram of a
    /// command fails the command.
    pub const ONCE: Self = Self { interval: Duration::from_secs(5), attempts: 1 };
}

impl Default for Retry {
    /// ipmitool's own.
    fn default() -> Self {
        Self { interval: Duration::from_secs(1), attempts: 4 }
    }
}

/// An answer to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// How it went.
    pub completion: Completion,
    /// What follows.
    pub data: Vec<u8>,
}

/// A session with a BMC.
#[derive(Debug)]
pub struct Client {
    link: Link,
    session: Session,
}

impl Client {
    /// Opens a session with the BMC at `address`, a name or an IP address.
    ///
    /// A closed port is noticed, but waited for as long as a silent one, as ipmitool does; only the error differs.
    pub async fn connect(
        host: &wire::Host,
        address: &str,
        port: u16,
        credentials: &Credentials,
        suite: CipherSuite,
        privilege: Privilege,
        retry: Retry,
    ) -> Result<Self, ClientError> {
        let link = Link::open(host, address, port, retry).await?;
        capabilities(&link, privilege).await?;
        // An id of its own for each connection gives each its own stream of chance.
        let dice = host.dice(&format!("ipmi/session/{}", host.uuid("ipmi/session")));
        let session = login::login(&link, dice, credentials, suite, privilege).await?;
        let mut client = Self { link, session };
        // A session begins with the privilege of a user (13.32).
        if privilege > Privilege::User
            && let Err(error) = client.run(&SetPrivilege(privilege)).await
        {
            // Its failure adds nothing to why the privilege could not be had.
            let _ = client.close().await;
            return Err(error);
        }
        Ok(client)
    }

    /// Sends a command and waits for its answer, whatever its completion code.
    pub async fn request(
        &mut self,
        net_fn: NetFn,
        command: u8,
        data: &[u8],
    ) -> Result<Response, ClientError> {
        let stage = Stage::Command { net_fn, command };
        let Self { link, session } = self;
        let request = session.next_request(net_fn, command, data);
        let message = request.encode();
        let keys = session.keys.clone();
        let console = session.console;
        let answer = link
            .exchange(
                stage,
                || session.seal(&message),
                |datagram| match datagram {
                    Datagram::Session(packet)
                        if packet.session == console && packet.kind == PayloadType::Ipmi =>
                    {
                        let message = Message::decode(&keys.open(&packet).ok()?).ok()?;
                        message.answers(&request).then_some(message)
                    }
                    Datagram::Ping { .. } | Datagram::Pong { .. } | Datagram::Sessionless(_) => None,
                    Datagram::Session(_) => None,
                },
            )
            .await?;
        response(stage, &answer)
    }

    /// Sends a command and reads its answer. A completion code other than "done" is an error.
    pub async fn run<C: Command>(&mut self, command: &C) -> Result<C::Answer, ClientError> {
        let answer = self.request(C::NET_FN, C::CODE, &command.encode()).await?;
        read::<C>(&answer)
    }

    /// Asks what each ipmitool process asks before its command: whether the BMC is a PICMG one (group extension 0),
    /// and its device id. Answers and silence are ignored, as ipmitool ignores them; only what the local socket
    /// says is an error.
    pub async fn probe(&mut self) -> Result<(), ClientError> {
        const GROUP_PROPERTIES: u8 = 0x00;
        const HPM_CAPABILITIES: u8 = 0x3e;
        let probes = [
            (NetFn::GROUP_EXTENSION, HPM_CAPABILITIES, &[0x00, 0x02][..]),
            (GetDeviceId::NET_FN, GetDeviceId::CODE, &[]),
            (NetFn::GROUP_EXTENSION, GROUP_PROPERTIES, &[0x00]),
            (NetFn::GROUP_EXTENSION, GROUP_PROPERTIES, &[0x03]),
        ];
        for (net_fn, command, data) in probes {
            if let Err(error @ ClientError::Socket { .. }) = self.request(net_fn, command, data).await {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Ends the session.
    pub async fn close(mut self) -> Result<(), ClientError> {
        let session = self.session.bmc;
        self.run(&CloseSession { session }).await
    }
}

/// Asks, outside any session, whether the BMC speaks RMCP+. When it does not answer, ipmitool asks once more as one
/// asks a BMC of IPMI 1.5.
async fn capabilities(link: &Link, privilege: Privilege) -> Result<(), ClientError> {
    let mut last = Ok(());
    for extended in [true, false] {
        let command = GetAuthenticationCapabilities { extended, privilege };
        let request = Message::request(
            0,
            GetAuthenticationCapabilities::NET_FN,
            GetAuthenticationCapabilities::CODE,
            &command.encode(),
        );
        let datagram = Datagram::Sessionless(request.encode()).encode();
        let answer = link
            .exchange(
                Stage::Capabilities,
                || datagram.clone(),
                |datagram| match datagram {
                    Datagram::Sessionless(bytes) => {
                        Message::decode(&bytes).ok().filter(|message| message.answers(&request))
                    }
                    Datagram::Ping { .. } | Datagram::Pong { .. } | Datagram::Session(_) => None,
                },
            )
            .await;
        match answer {
            Ok(answer) => {
                let answer = response(Stage::Capabilities, &answer)?;
                let able = read::<GetAuthenticationCapabilities>(&answer)?;
                return if able.rmcp_plus { Ok(()) } else { Err(ClientError::Unsupported) };
            }
            Err(error) if error.is_silence() => last = Err(error),
            Err(error) => return Err(error),
        }
    }
    last
}

fn response(stage: Stage, message: &Message) -> Result<Response, ClientError> {
    let (completion, data) =
        message.data.split_first().ok_or(ClientError::Malformed { stage, source: DecodeError::Short })?;
    Ok(Response { completion: Completion(*completion), data: data.to_vec() })
}

fn read<C: Command>(answer: &Response) -> Result<C::Answer, ClientError> {
    let stage = Stage::Command { net_fn: C::NET_FN, command: C::CODE };
    if answer.completion != Completion::OK {
        return Err(ClientError::Completion { stage, completion: answer.completion });
    }
    C::answer(&answer.data).map_err(|source| ClientError::Malformed { stage, source })
}

impl Session {
    /// The next request: resends have its sequence number too, so that the BMC knows them for what they are.
    fn next_request(&mut self, net_fn: NetFn, command: u8, data: &[u8]) -> Message {
        self.requests = self.requests.wrapping_add(1);
        Message::request(self.requests, net_fn, command, data)
    }

    /// The next datagram: resends have a packet sequence number of their own (6.12.8).
    fn seal(&mut self, message: &[u8]) -> Vec<u8> {
        // After the last number comes 1, as 0 marks packets outside sessions.
        self.sequence = self.sequence.checked_add(1).unwrap_or(1);
        let mut iv = [0; 16];
        self.dice.fill_bytes(&mut iv);
        let packet = self.keys.seal(PayloadType::Ipmi, self.bmc, self.sequence, message, iv);
        Datagram::Session(packet).encode()
    }
}
