//! The loop's work at one instant: deliver what is due, take what the kernels want to send, give each packet a fate.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    sync::{Arc, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use rand::RngExt as _;
use tokio::time::Instant;
use turmoil_net::{EnterGuard, Packet, TcpFlags, TcpSegment, Transport};

use crate::{
    flow::{AfterLoss, Flow, FlowKey, InFlight, after_loss, is_given_up},
    network::{Shared, State},
    record::{Fate, PacketHead, Segment},
    rule::Effect,
    scope::mark_dirty,
};

/// The first of the ports that turmoil-net gives to clients.
const EPHEMERAL: u16 = 49_152;

/// All packets on their way.
pub(crate) struct Fabric {
    shared: Arc<Shared>,
    net: EnterGuard,
    flows: BTreeMap<FlowKey, Flow>,
    /// The heads of the flows, by when they are due.
    due: BTreeMap<(Instant, u64), FlowKey>,
    order: u64,
    out: Vec<Packet>,
    pub(crate) packets: u64,
    pub(crate) passes: u64,
}

impl Fabric {
    pub(crate) fn new(shared: Arc<Shared>, net: EnterGuard) -> Self {
        let (flows, due) = (BTreeMap::new(), BTreeMap::new());
        Self { shared, net, flows, due, order: 0, out: Vec::new(), packets: 0, passes: 0 }
    }

    /// When something is due next.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.due.keys().next().map(|(due, _)| *due)
    }

    /// Does all that is to be done at this instant.
    pub(crate) fn pass(&mut self) {
        self.passes += 1;
        let now = Instant::now();
        self.release_held(now);
        while let Some((&(due, order), &key)) = self.due.first_key_value() {
            if due > now {
                break;
            }
            self.due.remove(&(due, order));
            self.head_is_due(key, now);
        }
        self.collect(now);
        self.reset_requested(now);
    }

    /// Takes what the kernels want to send.
    fn collect(&mut self, now: Instant) {
        let mut out = std::mem::take(&mut self.out);
        self.net.egress_all(&mut out);
        for packet in out.drain(..) {
            self.send(packet, now);
        }
        self.out = out;
    }

    /// Puts a packet on its way. Packets of a kernel whose host is down or has a newer one are swallowed.
    fn send(&mut self, mut packet: Packet, now: Instant) {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.state();
        let Some((from, kernel)) = state.sender(packet.src) else { return };
        // An address of nobody: like a machine that is not there.
        let Some(to) = state.receiver(packet.dst) else { return };
        packet.src = state.hosts[from].address;
        let latency = if from == to { Duration::ZERO } else { self.latency(&mut state, from, to) };
        drop(state);
        let key = flow_of(&packet, from, to);
        let flow = self.flows.entry(key).or_default();
        let due = (now + latency).max(flow.latest.unwrap_or(now));
        flow.latest = Some(due);
        flow.queue.push_back(InFlight { packet, due, losses: 0, kernel });
        if flow.queue.len() == 1 {
            self.schedule(key);
        }
    }

    fn latency(&self, state: &mut State, from: usize, to: usize) -> Duration {
        let config = &self.shared.config;
        let jitter = config.jitter.as_nanos();
        let drawn = if jitter == 0 {
            0
        } else {
            state.link(config, from, to).random_range(0..=u64::try_from(jitter).unwrap_or(u64::MAX))
        };
        config.latency + Duration::from_nanos(drawn) + state.delay(from, to)
    }

    /// Enters a flow's head among what is due.
    fn schedule(&mut self, key: FlowKey) {
        let Some(flow) = self.flows.get_mut(&key) else { return };
        let Some(head) = flow.queue.front() else {
            self.flows.remove(&key);
            return;
        };
        self.order += 1;
        let place = (head.due, self.order);
        flow.scheduled = Some(place);
        self.due.insert(place, key);
        // The loop must look at its timer again before time moves.
        mark_dirty();
    }

    /// Once a rule is gone, what is held is looked at again.
    fn release_held(&mut self, now: Instant) {
        if !std::mem::take(&mut self.shared.state().released) {
            return;
        }
        let held: Vec<FlowKey> =
            self.flows.iter().filter(|(_, flow)| flow.scheduled.is_none()).map(|(key, _)| *key).collect();
        for key in held {
            if let Some(head) = self.flows.get_mut(&key).and_then(|flow| flow.queue.front_mut()) {
                head.due = now;
            }
            self.schedule(key);
        }
    }

    /// The head of a flow would arrive now: decides whether it does.
    fn head_is_due(&mut self, key: FlowKey, now: Instant) {
        let Some(flow) = self.flows.get_mut(&key) else { return };
        flow.scheduled = None;
        let Some(mut head) = flow.queue.pop_front() else { return };
        self.packets += 1;
        if head.losses > 0 && !self.sender_still_cares(&head, key) {
            self.schedule(key);
            return;
        }
        if is_given_up(&head.packet, head.losses) {
            self.give_up(&head, key);
            return;
        }
        let fate = self.decide(key, &head.packet);
        self.record(key, &head.packet, fate);
        match fate {
            Fate::Delivered => self.deliver(key, head.packet),
            Fate::Held => {
                if let Some(flow) = self.flows.get_mut(&key) {
                    flow.queue.push_front(head);
                }
                return;
            }
            Fate::Lost => match after_loss(&head.packet, head.losses, self.following(key)) {
                AfterLoss::Forget => {}
                AfterLoss::Wait(wait) => {
                    head.losses += 1;
                    head.due = now + wait;
                    if let Some(flow) = self.flows.get_mut(&key) {
                        for later in &mut flow.queue {
                            later.due = later.due.max(head.due);
                        }
                        flow.latest = flow.latest.max(Some(head.due));
                        flow.queue.push_front(head);
                    }
                }
            },
            Fate::Refused | Fate::Reset => self.answer_in_place(key, &head.packet),
        }
        self.schedule(key);
    }

    fn following(&self, key: FlowKey) -> Option<&Packet> {
        self.flows.get(&key)?.queue.front().map(|next| &next.packet)
    }

    /// What befalls a packet now.
    fn decide(&self, key: FlowKey, packet: &Packet) -> Fate {
        if key.from == key.to {
            return Fate::Delivered;
        }
        let shared = &self.shared;
        let mut state = shared.state();
        let down = !state.hosts[key.to].up;
        let losing = state
            .rules
            .iter()
            .any(|rule| matches!(rule.effect, Effect::Loss(_)) && rule.concerns(key.from, key.to));
        let drawn: f64 = if losing { state.link(&shared.config, key.from, key.to).random() } else { 1.0 };
        for rule in state.rules_for(key.from, key.to) {
            let fate = match rule.effect {
                Effect::Unreachable => Some(Fate::Lost),
                Effect::Loss(probability) => (drawn < probability).then_some(Fate::Lost),
                Effect::Delay(_) => None,
                Effect::Hold => Some(Fate::Held),
                Effect::Refused => (is_to_service(packet) && !is_reset(packet)).then_some(Fate::Refused),
                Effect::Reset => (is_to_service(packet) && carries_bytes(packet)).then_some(Fate::Reset),
            };
            if let Some(fate) = fate {
                rule.touched += 1;
                return fate;
            }
        }
        if down { Fate::Lost } else { Fate::Delivered }
    }

    /// Hands a packet to the receiver's kernel.
    fn deliver(&self, key: FlowKey, mut packet: Packet) {
        let state = self.shared.state();
        let Some(address) = state.kernel_address(key.to) else { return };
        packet.dst = address;
        let closed = match &packet.payload {
            Transport::Udp(datagram) => !state.hosts[key.to].udp.contains_key(&datagram.dst_port),
            Transport::Tcp(_) => false,
        };
        drop(state);
        mark_dirty();
        if closed {
            self.refuse_datagram(key);
        } else {
            self.net.deliver(packet);
        }
    }

    /// The receiver, or somebody in its place, says that nothing listens or that the connection is reset.
    fn answer_in_place(&mut self, key: FlowKey, packet: &Packet) {
        mark_dirty();
        let Transport::Tcp(segment) = &packet.payload else {
            self.refuse_datagram(key);
            return;
        };
        let to_sender = TcpSegment {
            src_port: segment.dst_port,
            dst_port: segment.src_port,
            seq: segment.ack,
            ack: segment.seq.wrapping_add(1),
            flags: TcpFlags { rst: true, ack: true, ..TcpFlags::default() },
            window: 0,
            payload: Bytes::new(),
        };
        let (local, remote) = {
            let state = self.shared.state();
            (state.hosts[key.from].address, state.hosts[key.to].address)
        };
        self.inject(key.from, remote, to_sender);
        // The other end's connection is gone too: who says "reset" knows nothing of it.
        let to_receiver = TcpSegment {
            src_port: segment.src_port,
            dst_port: segment.dst_port,
            seq: segment.seq,
            ack: segment.ack,
            flags: TcpFlags { rst: true, ..TcpFlags::default() },
            window: 0,
            payload: Bytes::new(),
        };
        if !segment.flags.syn || segment.flags.ack {
            self.inject(key.to, local, to_receiver);
        }
        self.forget_flow(key);
    }

    /// Drops what else is under way in both directions of a connection that is no more.
    fn forget_flow(&mut self, key: FlowKey) {
        let back = FlowKey { from: key.to, to: key.from, ports: (key.ports.1, key.ports.0), tcp: key.tcp };
        for key in [key, back] {
            if let Some(flow) = self.flows.remove(&key)
                && let Some(place) = flow.scheduled
            {
                self.due.remove(&place);
            }
        }
    }

    /// ICMP's "port unreachable", as a connected UDP socket on Linux hears of it.
    fn refuse_datagram(&self, key: FlowKey) {
        let mut state = self.shared.state();
        if let Some(port) = state.hosts[key.from].udp.get_mut(&key.ports.0) {
            port.refused = true;
            if let Some(waker) = port.waker.take() {
                waker.wake();
            }
        }
    }

    /// Gives a segment to a host's kernel as if it came from `source`.
    fn inject(&self, to: usize, source: IpAddr, segment: TcpSegment) {
        let address = self.shared.state().kernel_address(to);
        if let Some(dst) = address {
            mark_dirty();
            self.net.deliver(Packet { src: source, dst, ttl: 64, payload: Transport::Tcp(segment) });
        }
    }

    /// The sender gives up on a connection: its socket fails with a time-out.
    fn give_up(&mut self, head: &InFlight, key: FlowKey) {
        let Transport::Tcp(segment) = &head.packet.payload else { return };
        let remote = {
            let mut state = self.shared.state();
            let remote = state.hosts[key.to].address;
            state.timed_out.insert((key.from, segment.src_port, SocketAddr::new(remote, segment.dst_port)));
            remote
        };
        let reset = TcpSegment {
            src_port: segment.dst_port,
            dst_port: segment.src_port,
            seq: segment.ack,
            ack: segment.seq,
            flags: TcpFlags { rst: true, ..TcpFlags::default() },
            window: 0,
            payload: Bytes::new(),
        };
        self.inject(key.from, remote, reset);
        self.flows.remove(&key);
    }

    /// Whether the kernel that sent a packet still has the socket: else it would not send it again.
    fn sender_still_cares(&self, head: &InFlight, key: FlowKey) -> bool {
        let Transport::Tcp(segment) = &head.packet.payload else { return false };
        let (address, peer) = {
            let state = self.shared.state();
            if !state.is_present(key.from, head.kernel) {
                return false;
            }
            (state.kernel_address(key.from), SocketAddr::new(state.hosts[key.to].address, segment.dst_port))
        };
        address.is_some_and(|address| {
            let sockets = turmoil_net::netstat(address);
            sockets
                .entries
                .iter()
                .any(|socket| socket.local.port() == segment.src_port && socket.peer == Some(peer))
        })
    }

    /// Carries out the resets that sockets asked for as they were dropped.
    fn reset_requested(&mut self, now: Instant) {
        let resets = std::mem::take(&mut self.shared.state().resets);
        for (host, port, peer) in resets {
            let Some(to) = self.shared.state().receiver(peer.ip()) else { continue };
            let key = FlowKey { from: host, to, ports: (port, peer.port()), tcp: true };
            // The FIN that dropping the socket queued must not arrive before the RST.
            if let Some(flow) = self.flows.get_mut(&key)
                && flow.queue.back().is_some_and(|last| is_fin(&last.packet))
            {
                flow.queue.pop_back();
                if flow.queue.is_empty()
                    && let Some(place) = flow.scheduled.take()
                {
                    self.due.remove(&place);
                    self.flows.remove(&key);
                }
            }
            let segment = |src_port, dst_port| TcpSegment {
                src_port,
                dst_port,
                seq: 0,
                ack: 0,
                flags: TcpFlags { rst: true, ..TcpFlags::default() },
                window: 0,
                payload: Bytes::new(),
            };
            // Our own kernel forgets the lingering socket; the peer's hears of it over the network.
            self.inject(host, peer.ip(), segment(peer.port(), port));
            let kernel = self.shared.state().kernel_address(host);
            if let Some(src) = kernel {
                let payload = Transport::Tcp(segment(port, peer.port()));
                self.send(Packet { src, dst: peer.ip(), ttl: 64, payload }, now);
            }
        }
    }

    fn record(&self, key: FlowKey, packet: &Packet, fate: Fate) {
        let (flags, sequence, payload) = match &packet.payload {
            Transport::Tcp(segment) => {
                (flag_bits(segment.flags), (segment.seq, segment.ack), &segment.payload)
            }
            Transport::Udp(datagram) => (0x80, (0, 0), &datagram.payload),
        };
        let number = |index| u32::try_from(index).unwrap_or(u32::MAX);
        let (from, to) = (number(key.from), number(key.to));
        let head = PacketHead { from, to, ports: key.ports, sequence, flags, fate };
        let at = self.shared.clock.now();
        let mut recorder = self.shared.recorder.lock().unwrap_or_else(PoisonError::into_inner);
        recorder.packet(at, &head, payload, || {
            let state = self.shared.state();
            Segment {
                from: format!("{}:{}", state.hosts[key.from].name, key.ports.0),
                to: format!("{}:{}", state.hosts[key.to].name, key.ports.1),
                kind: kind_of(packet),
                length: payload.len(),
                fate,
            }
        });
    }
}

fn flow_of(packet: &Packet, from: usize, to: usize) -> FlowKey {
    match &packet.payload {
        Transport::Tcp(segment) => {
            FlowKey { from, to, ports: (segment.src_port, segment.dst_port), tcp: true }
        }
        Transport::Udp(datagram) => {
            FlowKey { from, to, ports: (datagram.src_port, datagram.dst_port), tcp: false }
        }
    }
}

/// Whether a packet goes to a port that somebody listens on, rather than back to a client: those have ephemeral ports.
fn is_to_service(packet: &Packet) -> bool {
    let port = match &packet.payload {
        Transport::Tcp(segment) => segment.dst_port,
        Transport::Udp(datagram) => datagram.dst_port,
    };
    port < EPHEMERAL
}

fn is_reset(packet: &Packet) -> bool {
    matches!(&packet.payload, Transport::Tcp(segment) if segment.flags.rst)
}

fn is_fin(packet: &Packet) -> bool {
    matches!(&packet.payload, Transport::Tcp(segment) if segment.flags.fin)
}

fn carries_bytes(packet: &Packet) -> bool {
    match &packet.payload {
        Transport::Tcp(segment) => !segment.payload.is_empty(),
        Transport::Udp(_) => true,
    }
}

fn flag_bits(flags: TcpFlags) -> u8 {
    [flags.fin, flags.syn, flags.rst, flags.psh, flags.ack, flags.urg]
        .iter()
        .enumerate()
        .fold(0, |bits, (place, set)| bits | (u8::from(*set) << place))
}

fn kind_of(packet: &Packet) -> String {
    match &packet.payload {
        Transport::Udp(_) => "udp".to_owned(),
        Transport::Tcp(segment) => {
            let flags = segment.flags;
            let letters = [(flags.syn, 'S'), (flags.fin, 'F'), (flags.rst, 'R'), (flags.ack, '.')];
            let set: String = letters.iter().filter(|(set, _)| *set).map(|(_, letter)| letter).collect();
            format!("tcp {set}")
        }
    }
}
