//! One writer per session: claims and fencing.

use std::sync::Arc;

use longhaul_core::ids::SessionId;

use super::{ConformanceSetup, NOW, append, fenced, new_session, note, started};
use crate::{Lease, SharedStore, StoreError};

async fn write(setup: &ConformanceSetup, lease: &Lease, text: &str) -> Result<(), StoreError> {
    setup.store.append(lease, append(vec![note(text)])).await.map(|_| ())
}

/// After a second claim, the first lease can append nothing, and the second can.
pub async fn an_older_claim_is_fenced(store: SharedStore) {
    let setup = ConformanceSetup::new(store).await;
    let first = setup.claim().await;
    write(&setup, &first, "first").await.unwrap();
    let second = setup.claim().await;
    assert!(second.epoch > first.epoch);
    assert!(fenced(&write(&setup, &first, "late").await, &setup.id));
    write(&setup, &second, "second").await.unwrap();
    // A caller can make any lease: an epoch that was never given must be refused too.
    let invented = Lease { epoch: second.epoch + 1, ..second };
    assert!(fenced(&write(&setup, &invented, "invented").await, &setup.id));
    assert_eq!(setup.log().await, [started(), note("first"), note("second")]);
}

/// A released lease appends nothing more.
pub async fn a_released_lease_is_void(store: SharedStore) {
    let setup = ConformanceSetup::new(store).await;
    let lease = setup.claim().await;
    setup.store.release(&lease).await.unwrap();
    assert!(fenced(&write(&setup, &lease, "late").await, &setup.id));
    let next = setup.claim().await;
    assert!(next.epoch > lease.epoch);
    write(&setup, &next, "in time").await.unwrap();
}

/// The release of a superseded lease does not disturb the new holder.
pub async fn releasing_a_void_lease_changes_nothing(store: SharedStore) {
    let setup = ConformanceSetup::new(store).await;
    let first = setup.claim().await;
    let second = setup.claim().await;
    setup.store.release(&first).await.unwrap();
    write(&setup, &second, "mine").await.unwrap();
    assert_eq!(setup.store.delete(&setup.id).await, Err(StoreError::Busy(setup.id.clone())));
    let stranger = Lease { session_id: SessionId::from("nobody"), epoch: 1 };
    setup.store.release(&stranger).await.unwrap();
}

/// Exactly one of several simultaneous claims can append.
pub async fn of_two_racing_claims_one_holds(store: SharedStore) {
    let setup = ConformanceSetup::new(store).await;
    for round in 0..20 {
        let claims = [(); 2].map(|()| {
            let (store, id) = (Arc::clone(&setup.store), setup.id.clone());
            tokio::spawn(async move { store.claim(&id, "owner").await.unwrap() })
        });
        let mut leases = Vec::new();
        for claim in claims {
            leases.push(claim.await.unwrap());
        }
        let mut held = Vec::new();
        for lease in &leases {
            if write(&setup, lease, "mine").await.is_ok() {
                held.push(lease.epoch);
            }
        }
        let newest = leases.iter().map(|lease| lease.epoch).max().unwrap();
        assert_eq!(held, [newest], "round {round}");
    }
}

/// A lease of a deleted session is no lease of a later session of the same name.
pub async fn a_lease_does_not_outlive_its_session(store: SharedStore) {
    let setup = ConformanceSetup::new(store).await;
    let old = setup.claim().await;
    setup.store.release(&old).await.unwrap();
    setup.store.delete(&setup.id).await.unwrap();
    assert!(fenced(&write(&setup, &old, "ghost").await, &setup.id));
    setup.store.create(new_session("s", NOW)).await.unwrap();
    let new = setup.claim().await;
    assert!(new.epoch > old.epoch);
    assert!(fenced(&write(&setup, &old, "ghost").await, &setup.id));
    write(&setup, &new, "mine").await.unwrap();
    assert_eq!(setup.log().await, [started(), note("mine")]);
}
