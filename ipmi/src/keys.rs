//! Proofs and keys of a session, and the packets that they protect (13.28 to 13.33).

use aes::{
    Aes128,
    cipher::{Block, BlockModeDecrypt as _, BlockModeEncrypt as _, KeyIvInit as _},
};

use crate::{
    CipherSuite, Secret,
    cipher::{Authentication, Confidentiality, same},
    packet::{Packet, PayloadType},
};

/// AES works on blocks of 16 bytes.
const BLOCK: usize = 16;

/// "RMCP" of the header that would follow the trailer (13.6).
const NEXT_HEADER: u8 = 0x07;

/// All that both sides contribute to a session before they have keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The console's id of the session.
    pub console: u32,
    /// The BMC's id of the session.
    pub bmc: u32,
    /// The console's random number.
    pub console_random: [u8; 16],
    /// The BMC's random number.
    pub bmc_random: [u8; 16],
    /// The machine's id.
    pub guid: [u8; 16],
    /// RAKP message 1's role, whole.
    pub role: u8,
    /// The user's name.
    pub user: Vec<u8>,
}

impl Exchange {
    /// RAKP message 2's code: the BMC knows the password (13.31).
    pub fn rakp2(&self, algorithm: Authentication, password: &Secret) -> Vec<u8> {
        algorithm.hash(
            password.bytes(),
            &[
                &self.console.to_le_bytes(),
                &self.bmc.to_le_bytes(),
                &self.console_random,
                &self.bmc_random,
                &self.guid,
                &self.who(),
            ],
        )
    }

    /// RAKP message 3's code: the console knows the password (13.31).
    pub fn rakp3(&self, algorithm: Authentication, password: &Secret) -> Vec<u8> {
        algorithm.hash(password.bytes(), &[&self.bmc_random, &self.console.to_le_bytes(), &self.who()])
    }

    /// Role, length of the name, name.
    fn who(&self) -> Vec<u8> {
        let length = u8::try_from(self.user.len()).expect("a user name has at most 16 bytes");
        [&[self.role, length], &self.user[..]].concat()
    }
}

/// A session's keys.
#[derive(Clone, PartialEq, Eq)]
pub struct Keys {
    suite: CipherSuite,
    /// The session integrity key.
    sik: Vec<u8>,
    /// For authentication codes.
    k1: Vec<u8>,
    /// For encryption.
    k2: [u8; BLOCK],
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keys").field("suite", &self.suite).finish_non_exhaustive()
    }
}

/// A packet is not one of this session's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// It is less or more protected than the session's packets must be.
    #[error("accept the protection of a packet")]
    Protection,
    /// Its authentication code is wrong.
    #[error("authenticate a packet")]
    Code,
    /// What was decrypted is not padded as it should be.
    #[error("decrypt a packet")]
    Padding,
}

impl Keys {
    /// The keys of a session. `secret` is K_G, or the user's password where none is set (13.31, 13.32).
    pub fn derive(suite: CipherSuite, exchange: &Exchange, secret: &Secret) -> Self {
        let algorithm = suite.authentication();
        let sik = algorithm
            .hash(secret.bytes(), &[&exchange.console_random, &exchange.bmc_random, &exchange.who()]);
        let further = |constant: u8| algorithm.hash(&sik, &[&[constant; 20]]);
        // Without authentication the hash is empty, and so is the need for a key.
        let k2 = further(2).first_chunk().copied().unwrap_or_default();
        Self { suite, k1: further(1), k2, sik }
    }

    /// RAKP message 4's check value: the BMC knows the session's key (13.28.1).
    pub fn rakp4(&self, exchange: &Exchange) -> Vec<u8> {
        let algorithm = self.suite.authentication();
        let mut code = algorithm
            .hash(&self.sik, &[&exchange.console_random, &exchange.bmc.to_le_bytes(), &exchange.guid]);
        code.truncate(algorithm.check_length());
        code
    }

    /// Protects a payload as the suite says. `iv` must not repeat within the session.
    pub fn seal(
        &self,
        kind: PayloadType,
        session: u32,
        sequence: u32,
        payload: &[u8],
        iv: [u8; BLOCK],
    ) -> Packet {
        let (encrypted, payload) = match self.suite.confidentiality() {
            Confidentiality::None => (false, payload.to_vec()),
            Confidentiality::AesCbc128 => (true, self.encrypt(payload, iv)),
        };
        let integrity = self.suite.integrity();
        let mut packet = Packet { kind, encrypted, session, sequence, payload, trailer: None };
        if integrity.length() > 0 {
            packet.trailer = Some(Vec::new());
            let mut signed = packet.encode_head();
            let head = signed.len();
            let padding = (signed.len() + 2).next_multiple_of(4) - (signed.len() + 2);
            signed.resize(head + padding, 0xff);
            signed.extend([padding.to_le_bytes()[0], NEXT_HEADER]);
            let code = integrity.code(&self.k1, &signed);
            packet.trailer = Some([&signed[head..], &code].concat());
        }
        packet
    }

    /// The payload of a packet of this session, if it is one.
    pub fn open(&self, packet: &Packet) -> Result<Vec<u8>, OpenError> {
        let integrity = self.suite.integrity();
        let must_be_encrypted = match self.suite.confidentiality() {
            Confidentiality::None => false,
            Confidentiality::AesCbc128 => true,
        };
        if packet.encrypted != must_be_encrypted || packet.trailer.is_some() != (integrity.length() > 0) {
            return Err(OpenError::Protection);
        }
        if let Some(trailer) = &packet.trailer {
            let covered = trailer.len().checked_sub(integrity.length()).ok_or(OpenError::Code)?;
            let (covered, code) = trailer.split_at(covered);
            let signed = [&packet.encode_head(), covered].concat();
            if !same(code, &integrity.code(&self.k1, &signed)) {
                return Err(OpenError::Code);
            }
        }
        if packet.encrypted { self.decrypt(&packet.payload) } else { Ok(packet.payload.clone()) }
    }

    /// Initialization vector, then the payload padded with 1, 2, 3 … and the padding's length (13.29).
    fn encrypt(&self, payload: &[u8], iv: [u8; BLOCK]) -> Vec<u8> {
        let mut plain = payload.to_vec();
        let padding = (plain.len() + 1).next_multiple_of(BLOCK) - (plain.len() + 1);
        let length = padding.to_le_bytes()[0];
        plain.extend(1..=length);
        plain.push(length);
        let mut cipher = cbc::Encryptor::<Aes128>::new(&self.k2.into(), &iv.into());
        let mut bytes = iv.to_vec();
        for chunk in plain.chunks_exact(BLOCK) {
            let mut block = Block::<Aes128>::default();
            block.copy_from_slice(chunk);
            cipher.encrypt_block(&mut block);
            bytes.extend_from_slice(&block);
        }
        bytes
    }

    fn decrypt(&self, bytes: &[u8]) -> Result<Vec<u8>, OpenError> {
        let (iv, secret) = bytes.split_first_chunk::<BLOCK>().ok_or(OpenError::Padding)?;
        if secret.len() % BLOCK != 0 {
            return Err(OpenError::Padding);
        }
        let mut cipher = cbc::Decryptor::<Aes128>::new(&self.k2.into(), &(*iv).into());
        let mut plain = Vec::with_capacity(secret.len());
        for chunk in secret.chunks_exact(BLOCK) {
            let mut block = Block::<Aes128>::default();
            block.copy_from_slice(chunk);
            cipher.decrypt_block(&mut block);
            plain.extend_from_slice(&block);
        }
        let padding = usize::from(plain.pop().ok_or(OpenError::Padding)?);
        let kept = plain.len().checked_sub(padding).filter(|_| padding < BLOCK).ok_or(OpenError::Padding)?;
        if !plain[kept..].iter().copied().eq((1..).take(padding)) {
            return Err(OpenError::Padding);
        }
        plain.truncate(kept);
        Ok(plain)
    }
}
