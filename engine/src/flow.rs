//! The packets of one direction of one connection, in order.
//!
//! turmoil-net drops a TCP segment that arrives out of order and, as we configure it, never sends one again. So a
//! flow never reorders, and a segment that is lost stays at its head until Linux's retransmission timer sends it
//! again; what follows it waits, as it would in the receiver's reassembly queue.

use std::{collections::VecDeque, time::Duration};

use tokio::time::Instant;
use turmoil_net::{Packet, TcpSegment, Transport};

/// Linux's first retransmission time-out of a SYN (`TCP_TIMEOUT_INIT`); it doubles each time.
const SYN_TIMEOUT: Duration = Duration::from_secs(1);
/// How often Linux sends a SYN again (`tcp_syn_retries`): the last after 63 s, giving up at 127 s.
const SYN_RETRIES: u32 = 6;
/// How often Linux sends a SYN-ACK again (`tcp_synack_retries`).
const SYN_ACK_RETRIES: u32 = 5;
/// Linux's least retransmission time-out of data (`TCP_RTO_MIN`); it doubles each time.
const DATA_TIMEOUT: Duration = Duration::from_millis(200);
/// Linux's greatest retransmission time-out (`TCP_RTO_MAX`).
const DATA_TIMEOUT_MAX: Duration = Duration::from_secs(120);
/// How often Linux sends data again (`tcp_retries2`), giving up after about 924 s.
const DATA_RETRIES: u32 = 15;

/// When a connection attempt that nobody answers fails with `ETIMEDOUT` on Linux.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(127);

/// Names one direction of one connection (or of one pair of UDP ports).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FlowKey {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) ports: (u16, u16),
    pub(crate) tcp: bool,
}

/// A packet on its way.
#[derive(Debug)]
pub(crate) struct InFlight {
    pub(crate) packet: Packet,
    pub(crate) due: Instant,
    /// How often it was lost.
    pub(crate) losses: u32,
    /// The kernel that sent it, by its place in the list of kernels.
    pub(crate) kernel: usize,
}

/// One flow.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    pub(crate) queue: VecDeque<InFlight>,
    /// When its head is due; `None` while the head is held.
    pub(crate) scheduled: Option<(Instant, u64)>,
    /// No later packet of the flow arrives before this.
    pub(crate) latest: Option<Instant>,
}

/// What a sender does about a lost packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterLoss {
    /// Nothing: it is gone.
    Forget,
    /// Its timer runs for this time; then it is sent again, or the connection given up.
    Wait(Duration),
}

/// How long the first timer runs, and how often a segment is sent again before the sender gives up.
fn patience(segment: &TcpSegment) -> (Duration, u32) {
    match (segment.flags.syn, segment.flags.ack) {
        (true, false) => (SYN_TIMEOUT, SYN_RETRIES),
        (true, true) => (SYN_TIMEOUT, SYN_ACK_RETRIES),
        (false, _) => (DATA_TIMEOUT, DATA_RETRIES),
    }
}

/// Whether the sender of a packet that was lost this often gives its connection up when the timer has run.
pub(crate) fn is_given_up(packet: &Packet, losses: u32) -> bool {
    match &packet.payload {
        Transport::Tcp(segment) => losses > patience(segment).1,
        Transport::Udp(_) => false,
    }
}

/// What Linux does about the loss of `packet`, which was lost `losses` times before. `next` is what follows it on
/// its flow.
pub(crate) fn after_loss(packet: &Packet, losses: u32, next: Option<&Packet>) -> AfterLoss {
    let Transport::Tcp(segment) = &packet.payload else { return AfterLoss::Forget };
    let next_is_bare = next.is_some_and(|next| match &next.payload {
        Transport::Tcp(next) => is_bare_ack(next),
        Transport::Udp(_) => false,
    });
    // A later bare ACK acknowledges at least as much. (A later segment with data does too, but as the last of a
    // handshake turmoil-net would take its ACK and drop its data.) A RST is sent but once.
    let covered = is_bare_ack(segment) && next_is_bare;
    if segment.flags.rst || covered {
        return AfterLoss::Forget;
    }
    let (first, _) = patience(segment);
    AfterLoss::Wait((first * 2_u32.pow(losses.min(20))).min(DATA_TIMEOUT_MAX))
}

fn is_bare_ack(segment: &TcpSegment) -> bool {
    let flags = segment.flags;
    segment.payload.is_empty() && flags.ack && !flags.syn && !flags.fin && !flags.rst
}

#[cfg(test)]
mod tests {
    use turmoil_net::TcpFlags;

    use super::*;

    fn segment(flags: TcpFlags, payload: &'static [u8]) -> Packet {
        let address = std::net::IpAddr::from([10, 0, 0, 1]);
        let payload = bytes::Bytes::from_static(payload);
        Packet {
            src: address,
            dst: address,
            ttl: 64,
            payload: Transport::Tcp(TcpSegment {
                src_port: 1,
                dst_port: 2,
                seq: 0,
                ack: 0,
                flags,
                window: 0,
                payload,
            }),
        }
    }

    fn total(packet: &Packet) -> (u32, Duration) {
        let (mut losses, mut waited) = (0, Duration::ZERO);
        while !is_given_up(packet, losses) {
            let AfterLoss::Wait(wait) = after_loss(packet, losses, None) else { panic!("forgotten") };
            waited += wait;
            losses += 1;
        }
        (losses - 1, waited)
    }

    #[test]
    fn retransmission_follows_linux() {
        let syn = TcpFlags { syn: true, ..TcpFlags::default() };
        assert_eq!(total(&segment(syn, b"")), (6, CONNECT_TIMEOUT));
        let data = TcpFlags { ack: true, ..TcpFlags::default() };
        assert_eq!(total(&segment(data, b"x")), (15, Duration::from_millis(924_600)));
        let bare = segment(data, b"");
        assert_eq!(after_loss(&bare, 0, Some(&bare)), AfterLoss::Forget);
        assert_eq!(after_loss(&bare, 0, Some(&segment(data, b"x"))), AfterLoss::Wait(DATA_TIMEOUT));
        let reset = TcpFlags { rst: true, ..TcpFlags::default() };
        assert_eq!(after_loss(&segment(reset, b""), 0, None), AfterLoss::Forget);
    }
}
