-- +goose Up

-- One row per (device, sample time); a nil reading is NULL, never zero. Read deduplicated.
-- Kept 400 days from when it was stored: an import of old telemetry does not vanish at once.
CREATE TABLE idlewatt_store.gpu_samples
(
    Uuid        String,
    Instance    LowCardinality(String),
    At          DateTime64(3, 'UTC'),
    ReceivedAt  DateTime64(3, 'UTC'),
    Target      LowCardinality(String),
    Node        LowCardinality(String),
    Profile     LowCardinality(String),
    Model       LowCardinality(String),
    Complete    Bool,
    Utilization Nullable(Float64),
    Engine      Nullable(Float64),
    Sm          Nullable(Float64),
    Tensor      Nullable(Float64),
    Dram        Nullable(Float64),
    PowerW      Nullable(Float64),
    EnergyJ     Nullable(Float64),
    FbUsedMiB   Nullable(Float64),
    FbTotalMiB  Nullable(Float64),
    FbUsedRatio Nullable(Float64),
    Xid         Nullable(Int64),
    OwnerKind   LowCardinality(String),
    Owners      Array(String),
    OwnerLabels Map(LowCardinality(String), String),
    OwnerConfidence LowCardinality(String),
    OwnerEngines Array(Nullable(Float64)),
    Findings    Array(LowCardinality(String)),
    Event       String,
    StoredAt    DateTime('UTC') DEFAULT now()
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(At)
ORDER BY (Uuid, Instance, At)
TTL StoredAt + INTERVAL 400 DAY;

-- Every scrape, failed ones too: the expected samples against which coverage is counted.
CREATE TABLE idlewatt_store.scrapes
(
    Target     LowCardinality(String),
    At         DateTime64(3, 'UTC'),
    ReceivedAt DateTime64(3, 'UTC'),
    Node       LowCardinality(String),
    Ok         Bool,
    Complete   Bool,
    Error      String,
    Gpus       UInt32,
    Rejected   Map(LowCardinality(String), UInt32),
    SkewMs     Int64 DEFAULT 0,
    Event      String,
    StoredAt   DateTime('UTC') DEFAULT now()
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(At)
ORDER BY (Target, At)
TTL StoredAt + INTERVAL 400 DAY;

-- Derived from samples and jobs per (device, UTC day), cut at the hour, replaced whole by
-- load. Times are exclusive at the end. GPU time of a row = (End - Start) x ShareNum / ShareDen.
CREATE TABLE idlewatt_store.gpu_intervals
(
    Load            UInt64,
    Uuid            String,
    Instance        LowCardinality(String),
    Day             Date,
    Start           DateTime64(3, 'UTC'),
    End             DateTime64(3, 'UTC'),
    ShareNum        UInt32 DEFAULT 1,
    ShareDen        UInt32 DEFAULT 1,
    State           LowCardinality(String),
    Cause           LowCardinality(String),
    Node            LowCardinality(String),
    GpuModel        LowCardinality(String),
    Resident        Bool,
    OwnerKind       LowCardinality(String),
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
    LastJobId       String,
    Coverage        Float32,
    MeanPowerW      Nullable(Float32),
    EngineMax       Nullable(Float32),
    EngineMean      Nullable(Float32),
    Findings        Array(LowCardinality(String))
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(Day)
ORDER BY (Day, Node, Uuid, Instance, Start);

-- The newest Load per (device, day) is live. Fingerprint says from which inputs it came.
CREATE TABLE idlewatt_store.interval_commits
(
    Uuid        String,
    Instance    LowCardinality(String),
    Day         Date,
    Load        UInt64,
    Fingerprint UInt64,
    At          DateTime64(6, 'UTC') DEFAULT now64(6)
)
ENGINE = MergeTree
ORDER BY (Day, Uuid, Instance);

-- Facts about jobs as they came; the view idlewatt_store.jobs folds them, where declared
-- evidence never overrides what a scheduler or a cloud said.
CREATE TABLE idlewatt_store.job_events
(
    Event         String,
    Type          LowCardinality(String),
    At            DateTime64(3, 'UTC'),
    Scheduler     LowCardinality(String),
    Cluster       LowCardinality(String),
    JobId         String,
    ArrayTask     String,
    Attempt       UInt16,
    Name          String,
    User          LowCardinality(String),
    Project       LowCardinality(Nullable(String)),
    Team          LowCardinality(Nullable(String)),
    Environment   LowCardinality(Nullable(String)),
    Labels        Map(LowCardinality(String), String),
    Nodes         Array(String),
    Gpus          Array(String),
    GpuCount      UInt32,
    Namespace     LowCardinality(String),
    Pods          Array(String),
    Start         Nullable(DateTime64(3, 'UTC')),
    End           Nullable(DateTime64(3, 'UTC')),
    Checkpoint    Nullable(DateTime64(3, 'UTC')),
    Outcome       LowCardinality(String),
    AcceptedUnits Nullable(Decimal(38, 18)),
    UnitName      LowCardinality(String),
    Evidence      LowCardinality(String),
    ReceivedAt    DateTime64(6, 'UTC') DEFAULT now64(6)
)
ENGINE = ReplacingMergeTree(ReceivedAt)
ORDER BY (Scheduler, Cluster, JobId, ArrayTask, Attempt, Event)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1;

-- Every run of a resource at one rate, from inventory events; also which cloud resource a
-- host is, there and from the static map of the configuration.
CREATE TABLE idlewatt_store.instances
(
    ResourceId   String,
    Kind         LowCardinality(String),
    Source       LowCardinality(String),
    Name         String,
    Provider     LowCardinality(String),
    Account      LowCardinality(String),
    Region       LowCardinality(String),
    Zone         LowCardinality(String),
    InstanceType LowCardinality(String),
    System       LowCardinality(String),
    GpuModel     LowCardinality(String),
    GpuCount     Nullable(Decimal(38, 18)),
    Hosts        Array(String),
    Gpus         Array(String),
    PricingModel LowCardinality(String),
    Rate         Nullable(Decimal(38, 18)),
    Currency     LowCardinality(String),
    Tags         Map(LowCardinality(String), String),
    SeenFrom     DateTime64(3, 'UTC'),
    SeenTo       Nullable(DateTime64(3, 'UTC')),
    StartedAfter Nullable(DateTime64(3, 'UTC')),
    EndedBefore  Nullable(DateTime64(3, 'UTC')),
    Step         UInt32,
    Evidence     LowCardinality(String),
    Event        String,
    ReceivedAt   DateTime64(6, 'UTC') DEFAULT now64(6)
)
ENGINE = ReplacingMergeTree(ReceivedAt)
ORDER BY (ResourceId, Kind, SeenFrom, Source, Provider)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1;

-- When everything that ran in an account and region had been told.
CREATE TABLE idlewatt_store.polls
(
    Source     LowCardinality(String),
    Provider   LowCardinality(String),
    Account    LowCardinality(String),
    Region     LowCardinality(String),
    At         DateTime64(3, 'UTC'),
    Running    UInt32,
    Event      String,
    ReceivedAt DateTime64(6, 'UTC') DEFAULT now64(6)
)
ENGINE = ReplacingMergeTree(ReceivedAt)
PARTITION BY toYYYYMM(At)
ORDER BY (Source, Account, Region, At)
TTL toDateTime(At) + INTERVAL 400 DAY;

-- What one hour costs from ValidFrom on.
CREATE TABLE idlewatt_store.prices
(
    Source       LowCardinality(String),
    Provider     LowCardinality(String),
    Region       LowCardinality(String),
    Zone         LowCardinality(String),
    InstanceType LowCardinality(String),
    Kind         LowCardinality(String),
    System       LowCardinality(String),
    PricingModel LowCardinality(String),
    Per          LowCardinality(String),
    Rate         Decimal(38, 18),
    Currency     LowCardinality(String),
    ValidFrom    DateTime64(3, 'UTC'),
    ValidTo      Nullable(DateTime64(3, 'UTC')),
    Event        String,
    ReceivedAt   DateTime64(6, 'UTC') DEFAULT now64(6)
)
ENGINE = ReplacingMergeTree(ReceivedAt)
ORDER BY (Provider, InstanceType, Kind, PricingModel, Region, Zone, System, Per, Source, ValidFrom);

-- Prepaid balances over time. Never a cost.
CREATE TABLE idlewatt_store.wallets
(
    Source       LowCardinality(String),
    Provider     LowCardinality(String),
    Account      LowCardinality(String),
    At           DateTime64(3, 'UTC'),
    Balance      Decimal(38, 18),
    Currency     LowCardinality(String),
    SpendPerHour Nullable(Decimal(38, 18)),
    SpendLimit   Nullable(Decimal(38, 18)),
    Event        String,
    ReceivedAt   DateTime64(6, 'UTC') DEFAULT now64(6)
)
ENGINE = ReplacingMergeTree(ReceivedAt)
ORDER BY (Source, Account, At)
TTL toDateTime(At) + INTERVAL 400 DAY;

-- What a scheduler says of a host from a moment on, until the next row of the same host.
CREATE TABLE idlewatt_store.nodes
(
    Source     LowCardinality(String),
    Cluster    LowCardinality(String),
    Name       String,
    Hosts      Array(String),
    ResourceId String,
    State      LowCardinality(String),
    Reason     String,
    At         DateTime64(3, 'UTC'),
    Event      String,
    ReceivedAt DateTime64(6, 'UTC') DEFAULT now64(6)
)
ENGINE = ReplacingMergeTree(ReceivedAt)
ORDER BY (Source, Cluster, Name, At)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1;
