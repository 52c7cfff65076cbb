//! Sending a datagram until it is answered.

use std::{io, net::SocketAddr, time::Duration};

use wire::{Host, Instant, UdpSocket};

use super::{ClientError, Retry, Stage};
use crate::{LARGEST_DATAGRAM, rmcp::Datagram};

/// By how much each attempt waits longer than the one before.
const GROWTH: Duration = Duration::from_secs(1);

/// A socket, and the BMC that it is used with.
#[derive(Debug)]
pub(super) struct Link {
    host: Host,
    socket: UdpSocket,
    peer: SocketAddr,
    retry: Retry,
}

/// What came before a deadline.
enum Heard<T> {
    Answer(T),
    Refusal,
    Nothing,
}

impl Link {
    pub(super) async fn open(
        host: &Host,
        address: &str,
        port: u16,
        retry: Retry,
    ) -> Result<Self, ClientError> {
        let peer = host
            .resolve(address, port)
            .await
            .map_err(|source| ClientError::Resolve { address: address.to_owned(), source })?;
        let socket = host.udp(0).await.map_err(|source| ClientError::Socket { source })?;
        Ok(Self { host: host.clone(), socket, peer, retry })
    }

    /// Sends what `make` makes, once for each attempt, until `read` finds the answer in something that comes back.
    /// Everything else that comes back is ignored.
    pub(super) async fn exchange<T>(
        &self,
        stage: Stage,
        mut make: impl FnMut() -> Vec<u8>,
        mut read: impl FnMut(Datagram) -> Option<T>,
    ) -> Result<T, ClientError> {
        let mut refused = false;
        let mut wait = self.retry.interval;
        for _ in 0..self.retry.attempts.max(1) {
            let deadline = self.host.now() + wait;
            wait += GROWTH;
            match self.attempt(&make(), deadline, &mut read).await? {
                Heard::Answer(answer) => return Ok(answer),
                Heard::Refusal => refused = true,
                Heard::Nothing => {}
            }
        }
        Err(if refused { ClientError::Refused { stage } } else { ClientError::NoAnswer { stage } })
    }

    async fn attempt<T>(
        &self,
        datagram: &[u8],
        deadline: Instant,
        read: &mut impl FnMut(Datagram) -> Option<T>,
    ) -> Result<Heard<T>, ClientError> {
        let outcome = async {
            self.socket.send_to(datagram, self.peer).await?;
            self.listen(deadline, read).await
        }
        .await;
        match outcome {
            Ok(heard) => Ok(heard),
            // A closed port may be an open one at the next attempt; ipmitool waits for that one.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                self.host.sleep_until(deadline).await;
                Ok(Heard::Refusal)
            }
            Err(source) => Err(ClientError::Socket { source }),
        }
    }

    async fn listen<T>(
        &self,
        deadline: Instant,
        read: &mut impl FnMut(Datagram) -> Option<T>,
    ) -> io::Result<Heard<T>> {
        let mut buffer = [0; LARGEST_DATAGRAM];
        loop {
            let left = deadline.since(self.host.now());
            let Some(received) = wire::within(left, self.socket.recv_from(&mut buffer)).await else {
                return Ok(Heard::Nothing);
            };
            let (length, from) = received?;
            if from != self.peer {
                continue;
            }
            if let Some(answer) = Datagram::decode(&buffer[..length]).ok().and_then(&mut *read) {
                return Ok(Heard::Answer(answer));
            }
        }
    }
}
