//! The image servers.

use std::collections::BTreeMap;

use engine::Network;
use fake_image_cache::{Fault, FaultId, ImageCache, Pattern};
use serde_json::Value;

use crate::scenario::plan::Plan;

/// The port that they listen on.
const PORT: u16 = 80;

/// The image servers of a world, by name.
pub(super) struct Caches(BTreeMap<String, ImageCache>);

/// A fault at some servers.
pub(super) struct Begun(Vec<(String, FaultId)>);

impl Caches {
    /// Fills the servers and starts them.
    pub(super) fn start(net: &Network, plan: &Plan) -> Self {
        let caches = plan.image_caches.iter().map(|planned| {
            let cache = ImageCache::new();
            for image in &planned.images {
                cache.add_image(&image.name, image.size);
            }
            cache.serve(&net.host(&planned.name), PORT);
            (planned.name.clone(), cache)
        });
        Self(caches.collect())
    }

    /// Somebody moves files away.
    pub(super) fn move_away(&self, cache: &str, files: &str) {
        if let Some(cache) = self.0.get(cache) {
            cache.move_away(&Pattern::from(files));
        }
    }

    /// Somebody puts moved files back.
    pub(super) fn restore(&self, cache: &str, files: &str) {
        if let Some(cache) = self.0.get(cache) {
            cache.restore(&Pattern::from(files));
        }
    }

    /// Begins a fault at some servers. It was read with the scenario, so that it can be read here.
    pub(super) fn begin(&self, caches: &[String], fault: &Value) -> Begun {
        let fault: Fault = super::checked(fault);
        let begun = caches.iter().filter_map(|name| {
            let id = self.0.get(name)?.apply(fault.clone());
            Some((name.clone(), id))
        });
        Begun(begun.collect())
    }

    /// Ends a fault; tells how many requests it befell.
    pub(super) fn end(&self, Begun(begun): Begun) -> u64 {
        let touched = begun.into_iter().filter_map(|(name, id)| {
            let cache = self.0.get(&name)?;
            cache.clear(id);
            Some(cache.touched(id))
        });
        touched.sum()
    }
}
