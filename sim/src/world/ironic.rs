//! Ironic as the world runs it: a program that crashes, and a database that may survive it.

use fake_ironic::{Database, Fault, Faults, Settings};
use serde_json::Value;
use wire::Host;

use crate::scenario::plan::Plan;

/// Where its API is.
pub(super) const API: &str = "http://ironic:6385/v1/";

/// Where its boot server is.
pub(super) const BOOT_SERVER: &str = "http://ironic:6180";

/// Ironic's lasting parts.
pub(super) struct Ironic {
    settings: Settings,
    database: Database,
    faults: Faults,
}

impl Ironic {
    pub(super) fn new(plan: &Plan) -> Self {
        Self { settings: plan.ironic.clone(), database: Database::new(), faults: Faults::default() }
    }

    /// Starts the program on its host, with the database as it is.
    pub(super) fn start(&self, host: Host) {
        fake_ironic::Ironic::new(self.settings.clone(), self.database.clone())
            .with_faults(self.faults.clone())
            .serve(host);
    }

    /// The database is gone.
    pub(super) fn lose_database(&self) {
        self.database.lose();
    }

    /// Begins a fault. It was read with the scenario, so that it can be read here.
    pub(super) fn begin(&self, id: &str, fault: &Value) {
        let fault: Fault = super::checked(fault);
        if let Err(error) = self.faults.begin(id, fault) {
            unreachable!("the fault was checked with the scenario: {error}");
        }
    }

    /// Ends a fault; tells how many requests it befell.
    pub(super) fn end(&self, id: &str) -> u64 {
        self.faults.end(id);
        self.faults.touched(id)
    }
}
