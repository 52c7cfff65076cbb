//! One session, from Open Session to its end.

use wire::Instant;

use crate::{
    CipherSuite, Privilege,
    keys::{Exchange, Keys},
    message::Message,
    packet::{Packet, PayloadType},
};

/// A session.
#[derive(Debug)]
pub(super) struct Session {
    /// The console's id of it.
    pub(super) console: u32,
    pub(super) suite: CipherSuite,
    /// The highest privilege that was asked for, or is to be had.
    pub(super) privilege: Privilege,
    /// When the last message of it came.
    pub(super) heard: Instant,
    pub(super) state: State,
}

#[derive(Debug)]
pub(super) enum State {
    /// Open Session was answered.
    Opened,
    /// RAKP message 1 was answered.
    Challenged(Box<Challenged>),
    /// RAKP message 3 was answered.
    Active(Box<Active>),
}

#[derive(Debug)]
pub(super) struct Challenged {
    pub(super) exchange: Exchange,
    pub(super) user: String,
    /// The highest privilege of the session.
    pub(super) limit: Privilege,
    /// RAKP message 2's code, for a console that asks again.
    pub(super) code: Vec<u8>,
    /// What RAKP message 3's code must be.
    pub(super) proof: Vec<u8>,
    pub(super) keys: Keys,
}

#[derive(Debug)]
pub(super) struct Active {
    pub(super) user: String,
    /// The highest privilege of the session.
    pub(super) limit: Privilege,
    pub(super) privilege: Privilege,
    pub(super) keys: Keys,
    pub(super) window: Window,
    /// RAKP message 3's code and message 4's, for a console that asks again.
    pub(super) activation: (Vec<u8>, Vec<u8>),
    sent: u32,
    last: Option<(Message, Message)>,
}

impl Active {
    pub(super) fn new(challenged: Challenged, check: Vec<u8>) -> Self {
        let Challenged { exchange: _, user, limit, code: _, proof, keys } = challenged;
        Self {
            user,
            limit,
            // "The session begins at the User level" (13.32), or below if it may not have even that.
            privilege: limit.min(Privilege::User),
            keys,
            window: Window::default(),
            activation: (proof, check),
            sent: 0,
            last: None,
        }
    }

    /// The answer to the last request, if this one is the same again: a console resends a request with the same
    /// sequence number (6.12.8).
    pub(super) fn repeated(&self, request: &Message) -> Option<Option<Message>> {
        let (last, answer) = self.last.as_ref()?;
        (last == request).then(|| Some(answer.clone()))
    }

    pub(super) fn remember(&mut self, request: &Message, answer: &Message) {
        self.last = Some((request.clone(), answer.clone()));
    }

    pub(super) fn seal(&mut self, console: u32, message: &[u8], iv: [u8; 16]) -> Packet {
        // After the last number comes 1, as 0 marks packets outside sessions.
        self.sent = self.sent.checked_add(1).unwrap_or(1);
        self.keys.seal(PayloadType::Ipmi, console, self.sent, message, iv)
    }
}

/// Which packets' sequence numbers are still welcome (6.12.13): up to 15 ahead of the highest so far, up to 16 behind
/// it, and none twice.
#[derive(Clone, Debug)]
pub struct Window {
    highest: u32,
    /// Bit n: the number n below the highest has come.
    seen: u32,
}

impl Default for Window {
    /// Of a new session, whose first number may be 1 to 15: ipmitool begins with 3.
    fn default() -> Self {
        Self { highest: 0, seen: u32::MAX }
    }
}

impl Window {
    const AHEAD: u32 = 15;
    const BEHIND: u32 = 16;

    /// Whether a number is welcome; it is not a second time. Numbers wrap around, and leave 0 out.
    pub fn accept(&mut self, sequence: u32) -> bool {
        if sequence == 0 {
            return false;
        }
        let ahead = sequence.wrapping_sub(self.highest);
        let behind = self.highest.wrapping_sub(sequence);
        if (1..=Self::AHEAD).contains(&ahead) {
            self.highest = sequence;
            self.seen = self.seen << ahead | 1;
            return true;
        }
        if behind > Self::BEHIND || self.seen & 1 << behind != 0 {
            return false;
        }
        self.seen |= 1 << behind;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_is_fifteen_ahead_and_sixteen_behind() {
        let after = |accepted: &[u32], next| {
            let mut window = Window::default();
            assert!(accepted.iter().all(|sequence| window.accept(*sequence)), "{accepted:?}");
            window.accept(next)
        };
        // accepted before               next  welcome
        let cases: [(&[u32], u32, bool); 14] = [
            (&[], 0, false),
            (&[], 1, true),
            (&[], 3, true),
            (&[], 15, true),
            (&[], 16, false),
            (&[], u32::MAX, false),
            (&[3], 3, false),
            (&[3], 2, true),
            (&[3, 2], 2, false),
            (&[15, 30], 45, true),
            (&[15, 30], 46, false),
            (&[15, 30], 14, true),
            (&[15, 30], 13, false),
            (&[15, 30], 15, false),
        ];
        for (before, next, welcome) in cases {
            assert_eq!(after(before, next), welcome, "{next} after {before:?}");
        }
    }

    #[test]
    fn the_window_wraps_around() {
        let mut window = Window { highest: u32::MAX - 1, seen: 1 };
        assert!(window.accept(u32::MAX));
        assert!(!window.accept(0));
        assert!(window.accept(2));
        assert!(window.accept(1));
        assert!(!window.accept(u32::MAX));
    }
}
