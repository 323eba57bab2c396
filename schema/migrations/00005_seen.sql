-- +goose Up

-- Intervals with their machines while one load is split: Pass is the first load number of the
-- split, whose rows go when it is done. What a crash leaves goes after a day.
CREATE TABLE idlewatt_store.seen
(
    Pass            UInt64,
    Resource        String,
    Hour            DateTime('UTC'),
    Uuid            String,
    Instance        LowCardinality(String),
    Start           DateTime64(3, 'UTC'),
    End             DateTime64(3, 'UTC'),
    ShareNum        UInt32,
    ShareDen        UInt32,
    State           LowCardinality(String),
    Cause           LowCardinality(String),
    Node            LowCardinality(String),
    Owner           String,
    OwnerConfidence LowCardinality(String),
    JobScheduler    LowCardinality(String),
    JobCluster      LowCardinality(String),
    JobId           String,
    JobTask         String,
    JobAttempt      UInt16,
    Project         LowCardinality(Nullable(String)),
    Team            LowCardinality(Nullable(String)),
    Environment     LowCardinality(Nullable(String)),
    StoredAt        DateTime('UTC') DEFAULT now()
)
ENGINE = MergeTree
PARTITION BY Pass
ORDER BY (Resource, Hour)
TTL StoredAt + INTERVAL 1 DAY;
