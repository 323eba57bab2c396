-- +goose Up

-- One row per line of a delivered bill, in FOCUS 1.4 names. A row is visible only while the
-- newest commit of its scope names its load; see the view idlewatt.charges.
-- ORDER BY starts with the load, so that the live-load filter prunes whole granules.
CREATE TABLE idlewatt_store.charges
(
    x_Load                              UInt64,
    x_Scope                             LowCardinality(String),
    x_Source                            LowCardinality(String),
    x_Dataset                           LowCardinality(String),
    x_Delivery                          LowCardinality(String),
    x_Object                            LowCardinality(String),
    x_Row                               UInt64,
    x_FocusVersion                      LowCardinality(String),

    AvailabilityZone                    LowCardinality(Nullable(String)),
    BilledCost                          Decimal(38, 18),
    BillingAccountId                    LowCardinality(String),
    BillingAccountName                  LowCardinality(Nullable(String)),
    BillingAccountType                  LowCardinality(Nullable(String)),
    BillingCurrency                     LowCardinality(String),
    BillingPeriodStart                  DateTime64(3, 'UTC'),
    BillingPeriodEnd                    DateTime64(3, 'UTC'),
    CapacityReservationId               LowCardinality(Nullable(String)),
    CapacityReservationStatus           LowCardinality(Nullable(String)),
    ChargeCategory                      LowCardinality(String),
    ChargeClass                         LowCardinality(Nullable(String)),
    ChargeDescription                   Nullable(String),
    ChargeFrequency                     LowCardinality(Nullable(String)),
    ChargePeriodStart                   DateTime64(3, 'UTC'),
    ChargePeriodEnd                     DateTime64(3, 'UTC'),
    CommitmentDiscountCategory          LowCardinality(Nullable(String)),
    CommitmentDiscountId                LowCardinality(Nullable(String)),
    CommitmentDiscountName              LowCardinality(Nullable(String)),
    CommitmentDiscountQuantity          Nullable(Decimal(38, 18)),
    CommitmentDiscountStatus            LowCardinality(Nullable(String)),
    CommitmentDiscountType              LowCardinality(Nullable(String)),
    CommitmentDiscountUnit              LowCardinality(Nullable(String)),
    ConsumedQuantity                    Nullable(Decimal(38, 18)),
    ConsumedUnit                        LowCardinality(Nullable(String)),
    ContractedCost                      Nullable(Decimal(38, 18)),
    ContractedUnitPrice                 Nullable(Decimal(38, 18)),
    EffectiveCost                       Nullable(Decimal(38, 18)),
    HostProviderName                    LowCardinality(Nullable(String)),
    InvoiceDetailId                     LowCardinality(Nullable(String)),
    InvoiceId                           LowCardinality(Nullable(String)),
    InvoiceIssuerName                   LowCardinality(Nullable(String)),
    ListCost                            Nullable(Decimal(38, 18)),
    ListUnitPrice                       Nullable(Decimal(38, 18)),
    PricingCategory                     LowCardinality(Nullable(String)),
    PricingCurrency                     LowCardinality(Nullable(String)),
    PricingCurrencyContractedUnitPrice  Nullable(Decimal(38, 18)),
    PricingCurrencyEffectiveCost        Nullable(Decimal(38, 18)),
    PricingCurrencyListUnitPrice        Nullable(Decimal(38, 18)),
    PricingQuantity                     Nullable(Decimal(38, 18)),
    PricingUnit                         LowCardinality(Nullable(String)),
    RegionId                            LowCardinality(Nullable(String)),
    RegionName                          LowCardinality(Nullable(String)),
    ResourceId                          Nullable(String),
    ResourceName                        Nullable(String),
    ResourceType                        LowCardinality(Nullable(String)),
    ServiceCategory                     LowCardinality(Nullable(String)),
    ServiceName                         LowCardinality(Nullable(String)),
    ServiceProviderName                 LowCardinality(Nullable(String)),
    ServiceSubcategory                  LowCardinality(Nullable(String)),
    SkuId                               LowCardinality(Nullable(String)),
    SkuMeter                            LowCardinality(Nullable(String)),
    SkuPriceDetails                     Nullable(String),
    SkuPriceId                          LowCardinality(Nullable(String)),
    SubAccountId                        LowCardinality(Nullable(String)),
    SubAccountName                      LowCardinality(Nullable(String)),
    SubAccountType                      LowCardinality(Nullable(String)),
    Tags                                Map(LowCardinality(String), String),
    AllocatedMethodId                   LowCardinality(Nullable(String)),
    AllocatedMethodDetails              Nullable(String),
    AllocatedResourceId                 Nullable(String),
    AllocatedResourceName               Nullable(String),
    AllocatedTags                       Nullable(String),
    ContractApplied                     Nullable(String),
    CommitmentProgramEligibilityDetails Nullable(String),

    x_ProviderName                      LowCardinality(Nullable(String)),
    x_PublisherName                     LowCardinality(Nullable(String)),
    x_LineItemType                      LowCardinality(Nullable(String)),
    x_InstanceType                      LowCardinality(Nullable(String)),
    x_Node                              Nullable(String),
    x_PricingModel                      LowCardinality(Nullable(String)),
    x_GpuModel                          LowCardinality(Nullable(String)),
    x_GpuCount                          Nullable(Decimal(38, 18)),
    x_GpuHours                          Nullable(Decimal(38, 18)),
    -- As the bill prints it, before discounts that net costs hold; NULL where a bill has no such figure.
    x_UnblendedCost                     Nullable(Decimal(38, 18)),
    -- A pod or task of a machine (AWS split cost allocation): such a row is billed nothing, it only
    -- says which part of the parent, a ResourceId of the same bill, is the pod's.
    x_SplitParentId                     Nullable(String),
    x_SplitCost                         Nullable(Decimal(38, 18)), -- what the pod reserved or used, after discounts where the bill has that
    x_SplitUnusedCost                   Nullable(Decimal(38, 18)), -- its part of what no pod took
    x_SplitUsage                        Nullable(Decimal(38, 18)), -- in the unit of SkuMeter
    x_TagSet                            UInt64,
    x_BadTags                           UInt8,
    x_PairCash                          Decimal(38, 18),
    x_BilledResidue                     Decimal(76, 40),
    x_EffectiveResidue                  Decimal(76, 40)
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(BillingPeriodStart)
ORDER BY (x_Load, ChargePeriodStart)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1;

-- Append-only: which load is live per scope is argMax(Load, (Era, Version, ContentHash)). An era
-- ends when --replaces retires the scope or brings it back, whatever the versions. One
-- insert names all winners of a delivery at once. Load 0 retires a scope.
CREATE TABLE idlewatt_store.commits
(
    Scope        String,
    Load         UInt64,
    Version      String,
    ContentHash  String,
    Era          UInt32 DEFAULT 0,
    DeliveryScopes UInt32 DEFAULT 0,
    Source       LowCardinality(String),
    Dataset      LowCardinality(String),
    Format       LowCardinality(String),
    Delivery     String,
    PeriodStart  DateTime64(3, 'UTC'),
    PeriodEnd    DateTime64(3, 'UTC'),
    Doors        Array(String),
    Rows         UInt64,
    BilledCost   Map(String, Decimal(38, 18)),
    RoundedRows  UInt64,
    Residue      Decimal(76, 40),
    CommittedAt  DateTime64(6, 'UTC') DEFAULT now64(6)
)
ENGINE = MergeTree
ORDER BY (Scope, Version, Load)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1;

-- What became of every delivery that was tried.
CREATE TABLE idlewatt_store.delivery_log
(
    Delivery    String,
    Attempt     UInt64,
    Source      LowCardinality(String),
    Format      LowCardinality(String),
    Version     String,
    Status      LowCardinality(String),
    Message     String,
    Objects     Array(Tuple(Name String, SHA256 String, Size Int64)),
    Scopes      Array(String),
    Loads       Array(UInt64),
    Rows        UInt64,
    BilledCost  Map(String, Decimal(38, 18)),
    RoundedRows UInt64,
    Defects     Map(String, UInt64),
    Seconds     Float64,
    At          DateTime64(6, 'UTC') DEFAULT now64(6)
)
ENGINE = MergeTree
ORDER BY (At, Delivery);

-- Dimensions of each tag set under each version of the rules, so that a changed rule
-- rewrites no bill. The newest rule version per tag set counts.
CREATE TABLE idlewatt_store.tag_dims
(
    TagSet      UInt64,
    RuleVersion UInt64,
    Project     Nullable(String),
    Team        Nullable(String),
    Environment Nullable(String),
    TagSource   LowCardinality(Nullable(String))
)
ENGINE = ReplacingMergeTree(RuleVersion)
ORDER BY TagSet;

-- Every distinct set of tags met on a bill, with the account it was met in.
CREATE TABLE idlewatt_store.tag_sets
(
    TagSet       UInt64,
    Tags         Map(LowCardinality(String), String),
    SubAccountId String
)
ENGINE = ReplacingMergeTree
ORDER BY TagSet;

CREATE TABLE idlewatt_store.gpu_catalog
(
    Provider     LowCardinality(String),
    InstanceType String,
    GpuModel     String,
    GpuCount     Decimal(38, 18),
    Confidence   LowCardinality(String),
    Version      UInt64
)
ENGINE = ReplacingMergeTree(Version)
ORDER BY (Provider, InstanceType);

CREATE TABLE idlewatt_store.invoices
(
    InvoiceIssuerName  String,
    BillingAccountId   String,
    InvoiceId          String,
    BillingPeriodStart DateTime64(3, 'UTC'),
    BillingPeriodEnd   DateTime64(3, 'UTC'),
    BillingCurrency    String,
    BilledCost         Decimal(38, 18),
    x_Source           LowCardinality(String),
    x_Event            String,
    x_ReceivedAt       DateTime64(6, 'UTC') DEFAULT now64(6)
)
ENGINE = ReplacingMergeTree(x_ReceivedAt)
ORDER BY (InvoiceIssuerName, BillingAccountId, BillingPeriodStart, InvoiceId, BillingCurrency)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1;

CREATE TABLE idlewatt_store.meta
(
    Key     String,
    Value   String,
    Version DateTime64(6, 'UTC') DEFAULT now64(6)
)
ENGINE = ReplacingMergeTree(Version)
ORDER BY Key;
