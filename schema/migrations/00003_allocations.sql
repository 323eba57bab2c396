-- +goose Up

-- The parts of every charge that is split. A part's four costs and its quantity add up with
-- its siblings to the charge exactly. Charges that are not split have no row here: the view
-- idlewatt.allocations adds them as they are.
CREATE TABLE idlewatt_store.allocations
(
    Load            UInt64,
    ChargeLoad      UInt64,
    ChargeObject    LowCardinality(String),
    ChargeRow       UInt64,
    Day             Date,
    Hour            DateTime64(3, 'UTC'),
    Part            UInt32,
    x_AllocationKind    LowCardinality(String),
    x_AllocationQuality LowCardinality(String),
    State           LowCardinality(String),
    Cause           LowCardinality(String),
    JobScheduler    LowCardinality(String),
    JobCluster      LowCardinality(String),
    JobId           String,
    JobTask         String,
    JobAttempt      UInt16,
    Owner           String,
    OwnerConfidence LowCardinality(String),
    Project         LowCardinality(Nullable(String)),
    Team            LowCardinality(Nullable(String)),
    Environment     LowCardinality(Nullable(String)),
    Node            LowCardinality(String),
    Uuid            String,
    Instance        LowCardinality(String),
    IntervalStart   Nullable(DateTime64(3, 'UTC')),
    IntervalEnd     Nullable(DateTime64(3, 'UTC')),
    GpuHours        Decimal(38, 18),
    ConsumedQuantity Nullable(Decimal(38, 18)),
    PricingQuantity Nullable(Decimal(38, 18)),
    ListCost        Nullable(Decimal(38, 18)),
    ContractedCost  Nullable(Decimal(38, 18)),
    EffectiveCost   Nullable(Decimal(38, 18)),
    BilledCost      Decimal(38, 18),
    -- Of the pod or task that the bill itself gives this part to; 0 and empty else.
    TagSet          UInt64 DEFAULT 0,
    AllocatedTags   String DEFAULT ''
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(Day)
ORDER BY (ChargeLoad, Day, ChargeRow, Part);

-- The newest Load per (ChargeLoad, Day) is live.
CREATE TABLE idlewatt_store.allocation_commits
(
    ChargeLoad  UInt64,
    Day         Date,
    Load        UInt64,
    Fingerprint UInt64,
    Rows        UInt64,
    Pods        Bool DEFAULT false, -- the bill itself splits machines of this day over pods
    At          DateTime64(6, 'UTC') DEFAULT now64(6)
)
ENGINE = MergeTree
ORDER BY (ChargeLoad, Day)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1;
