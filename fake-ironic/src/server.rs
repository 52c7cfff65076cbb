//! Ironic as a program: what starts it, and what stays when it dies.

use std::{io, sync::Arc};

use wire::Host;

use crate::{
    api::Api,
    boot_server,
    conductor::Conductor,
    database::Database,
    fault::{Fault, FaultError, Faults},
    settings::Settings,
};

/// The API's port.
pub const API_PORT: u16 = 6385;

/// An Ironic: API, conductor and boot server in one process, as metal3 runs it. Cheap to clone; all clones are the
/// same.
#[derive(Clone, Debug)]
pub struct Ironic {
    settings: Arc<Settings>,
    database: Database,
    faults: Faults,
}

impl Ironic {
    /// An Ironic that is not running yet.
    pub fn new(settings: Settings, database: Database) -> Self {
        Self { settings: Arc::new(settings), database, faults: Faults::default() }
    }

    /// Its database, which outlives the process.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Begins a fault under an id of the caller's.
    pub fn begin(&self, id: &str, fault: Fault) -> Result<(), FaultError> {
        let loses = fault == Fault::DatabaseLost;
        self.faults.begin(id, fault)?;
        if loses {
            if self.database.node_count() > 0 {
                self.faults.touch(id);
            }
            self.database.lose();
        }
        Ok(())
    }

    /// Ends a fault.
    pub fn end(&self, id: &str) {
        self.faults.end(id);
    }

    /// How often a fault changed anything, so far or until it ended.
    pub fn touched(&self, id: &str) -> u64 {
        self.faults.touched(id)
    }

    /// Runs on a host for as long as that lives: cleans up after a predecessor, then serves the API on port
    /// [`API_PORT`] and boot files on port 6180. Returns only if a port cannot be had. After a crash it is called
    /// again on the restarted host; what was in memory alone is then gone.
    pub async fn serve(&self, host: Host) -> io::Result<()> {
        let conductor =
            Conductor::new(host.clone(), Arc::clone(&self.settings), self.database.clone(), self.faults.clone());
        conductor.start_up();
        conductor.start_rounds();
        let boot_listener = host.listen(boot_server::PORT).await?;
        let boot_files = conductor.driver().boot_server_router();
        let boot_host = host.clone();
        drop(host.spawn(async move {
            if let Err(error) = wire::http::serve_on(&boot_host, &boot_listener, boot_files).await {
                tracing::warn!(%error, "the boot server ended");
            }
        }));
        wire::http::serve(&host, API_PORT, Api::new(conductor).router()).await
    }
}
