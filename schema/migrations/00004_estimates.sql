-- +goose Up

-- What running machines and volumes cost by observed time and rate, one row per run and hour,
-- whether a bill has come or not; replaced whole per (Source, Day) by load. A run that nothing
-- prices has its hours here with a Reason and no Cost. Times are exclusive at the end.
CREATE TABLE idlewatt_store.estimates
(
    Load         UInt64,
    Source       LowCardinality(String),
    Day          Date,
    Hour         DateTime64(3, 'UTC'),
    Start        DateTime64(3, 'UTC'),
    Stop         DateTime64(3, 'UTC'),
    RunStart     DateTime64(3, 'UTC'),
    ResourceId   String,
    Kind         LowCardinality(String),
    Family       LowCardinality(String),
    Name         String,
    Node         String,
    Provider     LowCardinality(String),
    Account      LowCardinality(String),
    Region       LowCardinality(String),
    Zone         LowCardinality(String),
    InstanceType LowCardinality(String),
    GpuModel     LowCardinality(String),
    GpuCount     Nullable(Decimal(38, 18)),
    PricingModel LowCardinality(String),
    Tags         Map(LowCardinality(String), String),
    Hours        Decimal(38, 18),
    GpuHours     Nullable(Decimal(38, 18)),
    Rate         Nullable(Decimal(38, 18)),
    RateSource   LowCardinality(String),
    Reason       LowCardinality(String),
    Currency     LowCardinality(String),
    Cost         Nullable(Decimal(38, 18)),
    CostLow      Nullable(Decimal(38, 18)),
    CostHigh     Nullable(Decimal(38, 18))
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(Day)
ORDER BY (Source, Day, ResourceId, Kind, Hour)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1;

-- The newest Load per (Source, Day) is live. Facts is the fingerprint of the inputs without
-- the moment of the last poll, Fingerprint that of all of them; Groups are the (Provider,
-- Account, Family) that have rows.
CREATE TABLE idlewatt_store.estimate_commits
(
    Source      LowCardinality(String),
    Day         Date,
    Load        UInt64,
    Facts       UInt64,
    Fingerprint UInt64,
    Rows        UInt64,
    Groups      Array(Tuple(Provider String, Account String, Family String)),
    At          DateTime64(6, 'UTC')
)
ENGINE = MergeTree
ORDER BY (Source, Day, Load)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1;

-- Until when the bill of an account is whole for a cost family. It never goes back: the
-- largest row of a key counts.
CREATE TABLE idlewatt_store.complete_through
(
    Provider         LowCardinality(String),
    Account          String,
    Family           LowCardinality(String),
    Through          DateTime64(3, 'UTC'),
    BillingAccountId String,
    At               DateTime64(6, 'UTC') DEFAULT now64(6)
)
ENGINE = ReplacingMergeTree(Through)
ORDER BY (Provider, Account, Family)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1;
