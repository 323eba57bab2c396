-- Stand-ins for the public views, with the columns that the questions read, and one invented
-- month: so that golden files change only when a report does. That the questions also run on
-- the real views is another test.
CREATE DATABASE IF NOT EXISTS idlewatt
;;
CREATE TABLE idlewatt.allocations
(
    BillingAccountId String, SubAccountId Nullable(String), InvoiceIssuerName Nullable(String), BillingCurrency String,
    BillingPeriodStart DateTime64(3, 'UTC'), ChargePeriodStart DateTime64(3, 'UTC'), ChargePeriodEnd DateTime64(3, 'UTC'),
    ServiceProviderName Nullable(String), ServiceName Nullable(String), RegionId Nullable(String),
    x_Project Nullable(String), x_Team Nullable(String), x_Environment Nullable(String), x_GpuModel Nullable(String), x_PricingModel Nullable(String),
    Node String, x_AllocationKind String, x_ChargeStatus String, BilledCost Decimal(38, 18), EffectiveCost Nullable(Decimal(38, 18)),
    x_GpuHours Decimal(38, 18), x_Source String
)
ENGINE = MergeTree ORDER BY (BillingPeriodStart, BillingAccountId)
;;
-- GPU machines of six projects, an hour as a third and a seventh, so that nothing is round.
INSERT INTO idlewatt.allocations
SELECT '123456789012', '210987654321', 'Amazon Web Services', 'USD', '2026-05-01 00:00:00', hour, hour + INTERVAL 1 HOUR, 'AWS', 'Amazon Elastic Compute Cloud', 'us-east-1',
    nullIf(project, ''), if(project IN ('llm-train', 'rlhf'), 'foundation', nullIf('applied', if(project = '', 'applied', ''))), 'prod', 'H100',
    if(n % 3 = 0, 'reserved', 'on_demand'), concat('trn-', leftPad(toString(n), 2, '0')), kind,
    if(hour >= toDateTime64('2026-05-29 00:00:00', 3, 'UTC'), 'estimated', 'billed_open'),
    if(n % 3 = 0, toDecimal128(0, 18), cost), cost, toDecimal128(8, 18), 'aws-payer'
FROM
(
    SELECT number % 744 AS h, toDateTime64('2026-05-01 00:00:00', 3, 'UTC') + toIntervalHour(h) AS hour, intDiv(number, 744) AS n,
        ['llm-train', 'llm-train', 'llm-train', 'rlhf', 'vision', 'vision', 'ranker', 'asr-batch', ''][n + 1] AS project,
        toDayOfWeek(hour) >= 6 AS weekend,
        multiIf(n = 6 AND weekend, 'unallocated_idle', n = 8 AND h % 5 > 1, 'unallocated_idle', n IN (4, 5) AND h % 24 < 5, 'job_idle', n = 7, 'unobserved',
            n = 3 AND h BETWEEN 300 AND 360, 'unavailable', weekend AND h % 7 < 2, 'job_idle', h % 11 = 0, 'unallocated_idle', 'job_used') AS kind,
        toDecimal128(divideDecimal(toDecimal256(98 - n * 3, 18), toDecimal256(3, 18), 18), 18) AS cost
    FROM numbers(744 * 9)
)
;;
INSERT INTO idlewatt.allocations
SELECT '123456789012', NULL, 'Amazon Web Services', 'USD', '2026-05-01 00:00:00', at, until, 'AWS', service, 'us-east-1', project, NULL, NULL, NULL, NULL, '', kind,
    'billed_open', cost, cost, 0, 'aws-payer'
FROM values('at DateTime64(3, \'UTC\'), until DateTime64(3, \'UTC\'), service String, project Nullable(String), kind String, cost Decimal(38, 18)',
    ('2026-05-01 00:00:00', '2026-06-01 00:00:00', 'AWS Support', NULL, 'shared', 4310.507),
    ('2026-05-01 00:00:00', '2026-06-01 00:00:00', 'Tax', NULL, 'tax', 9120.333333333333),
    ('2026-05-11 00:00:00', '2026-05-12 00:00:00', 'Credit', 'vision', 'credit', -6000),
    ('2026-05-14 00:00:00', '2026-05-15 00:00:00', 'Savings Plan', NULL, 'commitment_unused', 812.004),
    ('2026-05-20 00:00:00', '2026-05-21 00:00:00', 'Amazon S3', 'llm-train', 'other', 713.9951),
    ('2026-05-21 00:00:00', '2026-05-22 00:00:00', 'Amazon S3', '=HYPERLINK("x")|<b>&\'', 'other', 0.015))
;;
INSERT INTO idlewatt.allocations
SELECT 'INV-EU-7', 'sub', 'Vast.ai', 'EUR', '2026-05-01 00:00:00', day, day + INTERVAL 1 DAY, 'Vast.ai', 'GPU', 'eu', if(n % 2 = 0, 'asr-batch', NULL), NULL, NULL, 'RTX 4090',
    'marketplace', concat('vast-', toString(n)), if(n = 2, 'unallocated_idle', 'job_used'), 'billed_open', cost, cost, 24, 'vast'
FROM
(
    SELECT toDateTime64('2026-05-01 00:00:00', 3, 'UTC') + toIntervalDay(number % 23) AS day, intDiv(number, 23) AS n, toDecimal128('9.605', 18) AS cost FROM numbers(69)
)
;;
CREATE VIEW idlewatt.charges AS SELECT * FROM idlewatt.allocations
;;
CREATE VIEW idlewatt.allocations_daily AS
SELECT *, toDate(ChargePeriodStart) AS Day FROM idlewatt.allocations WHERE dateDiff('hour', ChargePeriodStart, ChargePeriodEnd) < 648
UNION ALL
SELECT * REPLACE (toDecimal128(divideDecimal(toDecimal256(assumeNotNull(EffectiveCost), 18), toDecimal256(31, 18), 18), 18) AS EffectiveCost),
    toDate('2026-05-01') + arrayJoin(range(31)) AS Day
FROM idlewatt.allocations WHERE dateDiff('hour', ChargePeriodStart, ChargePeriodEnd) >= 648
;;
CREATE VIEW idlewatt.reconciliation AS
SELECT assumeNotNull(any(InvoiceIssuerName)) AS InvoiceIssuerName, BillingAccountId, if(BillingCurrency = 'USD', 'E-1', '') AS InvoiceId, BillingPeriodStart, BillingCurrency,
    if(BillingCurrency = 'USD', toNullable(toDecimal128('130120.96', 18)), NULL) AS InvoiceTotal, sum(a.BilledCost) AS BilledCost,
    sum(assumeNotNull(a.EffectiveCost)) - sum(a.BilledCost) AS AmortisationDifference, sum(assumeNotNull(a.EffectiveCost)) AS EffectiveCost,
    sum(assumeNotNull(a.EffectiveCost)) AS AllocatedCost, toDecimal128(0, 18) AS Difference,
    if(isNull(InvoiceTotal), NULL, toNullable(toDecimal128(0, 18))) AS ExplainedDifference, InvoiceTotal - sum(a.BilledCost) AS UnexplainedDifference,
    if(isNull(InvoiceTotal), 'no_invoice', 'unexplained') AS Status, toDateTime64('2026-06-02 08:00:00', 3, 'UTC') AS CheckedAt
FROM idlewatt.allocations AS a WHERE x_ChargeStatus != 'estimated' GROUP BY BillingAccountId, BillingPeriodStart, BillingCurrency
;;
CREATE VIEW idlewatt.gpu_hour_rates AS
SELECT toStartOfMonth(BillingPeriodStart) AS Month, ServiceProviderName, RegionId, x_GpuModel, x_PricingModel, BillingCurrency,
    sum(x_GpuHours) AS GpuHours, sumIf(x_GpuHours, x_AllocationKind = 'job_used') AS BusyGpuHours, sum(a.EffectiveCost) AS EffectiveCost,
    toDecimal128(divideDecimal(toDecimal256(EffectiveCost, 18), toDecimal256(GpuHours, 18), 18), 18) AS CostPerGpuHour,
    if(BusyGpuHours > 0, toDecimal128(divideDecimal(toDecimal256(EffectiveCost, 18), toDecimal256(BusyGpuHours, 18), 18), 18), NULL) AS CostPerBusyGpuHour
FROM idlewatt.allocations AS a WHERE x_GpuHours > 0 GROUP BY Month, ServiceProviderName, RegionId, x_GpuModel, x_PricingModel, BillingCurrency
;;
CREATE TABLE idlewatt.idle_waste
(
    ResourceId String, Node String, GpuUuid String, x_GpuModel String, State String, Cause String, IntervalStart DateTime64(3, 'UTC'),
    IntervalEnd DateTime64(3, 'UTC'), GpuHours Decimal(38, 18), Cost Nullable(Decimal(38, 18)), AvoidableCost Nullable(Decimal(38, 18)),
    x_PricingModel Nullable(String), BillingCurrency String, x_Project Nullable(String), x_Team Nullable(String), Owner String,
    OwnerConfidence String, LastJobId String, Coverage Float32, x_ChargeStatus String
)
ENGINE = MergeTree ORDER BY (Node, IntervalStart)
;;
INSERT INTO idlewatt.idle_waste
SELECT if(n = 9, '', concat('i-0', hex(n * 7919 + 1))), concat('trn-', leftPad(toString(n), 2, '0')), concat('GPU-', toString(n), '-', toString(g)), 'H100',
    if(n IN (4, 5), 'allocated_idle', 'unallocated_idle'), if(n IN (4, 5), 'no_process', 'no_job'),
    toDateTime64('2026-05-01 16:05:00', 3, 'UTC') + toIntervalDay(7 * week) AS began, began + toIntervalHour(10 + n * 5), toDecimal128(10 + n * 5, 18),
    if(n = 9, NULL, toNullable(toDecimal128(divideDecimal(toDecimal256(98 - n * 3, 18), toDecimal256(24, 18), 18) * (10 + n * 5), 18))) AS c,
    if(n = 9, NULL, if(n % 3 = 0, toNullable(toDecimal128(0, 18)), c)), if(n = 9, NULL, if(n % 3 = 0, 'reserved', 'on_demand')), if(n = 9, '', 'USD'),
    nullIf(['llm-train', 'llm-train', 'llm-train', 'rlhf', 'vision', 'vision', 'ranker', 'asr-batch', '', ''][n + 1], ''), NULL,
    if(n IN (4, 5), 'vision/notebook-7', ''), if(n IN (4, 5), 'high', ''), toString(40000 + n), 0.9 + n / 100, if(week = 3, 'estimated', 'billed')
FROM (SELECT number % 8 AS g, intDiv(number, 8) % 4 AS week, intDiv(number, 32) AS n FROM numbers(320))
;;
CREATE TABLE idlewatt.idle_now
(
    ResourceId String, Node String, x_GpuModel String, GpuCount UInt64, IdleSince DateTime64(3, 'UTC'), State String, Cause String,
    CostSoFar Nullable(Decimal(38, 18)), CostPerHour Nullable(Decimal(38, 18)), AvoidablePerHour Nullable(Decimal(38, 18)), x_PricingModel Nullable(String),
    Owner String, OwnerConfidence String, LastJobId String, Coverage Float32, BillingCurrency String, x_Project Nullable(String)
)
ENGINE = MergeTree ORDER BY Node
;;
INSERT INTO idlewatt.idle_now VALUES
    ('i-0D878', 'trn-07', 'H100', 8, '2026-05-29 16:05:00', 'unallocated_idle', 'no_job', 1414.99, 34.4, 34.4, 'on_demand', '', '', '40007', 0.99, 'USD', 'llm-train'),
    ('i-0BEEF', 'trn-03', 'H100', 8, '2026-05-30 02:40:00', 'allocated_idle', 'no_process', 1030.2, 34.4, 0, 'reserved', 'vision/notebook-7', 'high', '40003', 0.97, 'USD', 'vision'),
    ('', 'lab-<b>1</b>', 'A100', 2, '2026-05-31 07:00:00', 'unallocated_idle', 'no_job', NULL, NULL, NULL, NULL, '', '', '', 0.95, '', NULL)
;;
CREATE TABLE idlewatt.job_costs
(
    Scheduler String, Cluster String, JobId String, Attempt UInt16, User String, x_Project Nullable(String), x_Team Nullable(String), Outcome String,
    Start Nullable(DateTime64(3, 'UTC')), End Nullable(DateTime64(3, 'UTC')), GpuHours Decimal(38, 18), BusyGpuHours Decimal(38, 18),
    EffectiveCost Nullable(Decimal(38, 18)), IdleCost Nullable(Decimal(38, 18)), RetryCost Nullable(Decimal(38, 18)), CostPerGpuHour Nullable(Decimal(38, 18)),
    EstimatedCost Nullable(Decimal(38, 18)), Confidence String, BillingCurrency String
)
ENGINE = MergeTree ORDER BY JobId
;;
INSERT INTO idlewatt.job_costs VALUES
    ('slurm', 'trn', '40001', 1, 'alice', 'llm-train', 'foundation', 'COMPLETED', '2026-05-02 08:00:00', '2026-05-06 20:00:00', 864, 839.5, 3715.20333, 105.35, 0, 4.300003854166666666, 0, 'high', 'USD'),
    ('slurm', 'trn', '40002', 1, 'bob', 'rlhf', 'foundation', 'NODE_FAIL', '2026-05-07 08:00:00', '2026-05-07 19:30:00', 92, 88, 395.6, 17.2, 120.405, 4.3, 0, 'high', 'USD'),
    ('slurm', 'trn', '40002', 2, 'bob', 'rlhf', 'foundation', 'COMPLETED', '2026-05-07 20:00:00', '2026-05-09 04:00:00', 256, 250, 1100.8, 25.8, 0, 4.3, 0, 'high', 'USD'),
    ('kubernetes', 'prod', 'vision/notebook-7', 1, 'carol', 'vision', 'applied', 'CANCELLED', '2026-05-12 09:00:00', NULL, 400, 12.25, 1720.005, 1667.325, 0, 4.3000125, 860, 'low', 'USD'),
    ('slurm', 'lab', '7', 1, 'dave', NULL, NULL, 'COMPLETED', '2026-05-20 10:00:00', '2026-05-20 12:00:00', 4, 4, NULL, NULL, NULL, NULL, NULL, 'low', '')
;;
CREATE TABLE idlewatt.unmatched_hosts
(
    Kind String, Name String, ResourceId String, GpuHours Decimal(38, 18), Cost Nullable(Decimal(38, 18)), BillingCurrency String,
    FirstSeen DateTime64(3, 'UTC'), LastSeen DateTime64(3, 'UTC'), Candidates Array(String)
)
ENGINE = MergeTree ORDER BY Name
;;
INSERT INTO idlewatt.unmatched_hosts VALUES
    ('resource without telemetry', 'batch-9', 'i-0900', 5952, 19096, 'USD', '2026-05-01 00:00:00', '2026-06-01 00:00:00', []),
    ('host without resource', 'lab-1', '', 620, NULL, '', '2026-05-01 00:00:00', '2026-05-31 08:00:00', [])
;;
CREATE TABLE idlewatt.telemetry
(
    Target String, Node String, LastScrape DateTime64(3, 'UTC'), LastOk Nullable(DateTime64(3, 'UTC')), LastError String, GpuCount UInt32,
    Scrapes UInt64, FailedScrapes UInt64, IncompleteScrapes UInt64, Rejected Map(String, UInt64), SkewSeconds Float64
)
ENGINE = MergeTree ORDER BY Target
;;
INSERT INTO idlewatt.telemetry VALUES
    ('trn-07:9400', 'trn-07', '2026-05-31 08:00:00', '2026-05-31 08:00:00', '', 8, 1440, 0, 0, {'blank': 2880}, 0),
    ('trn-08:9400', 'trn-08', '2026-05-31 08:00:00', NULL, 'dial <tcp>: connection refused', 0, 1440, 1440, 0, {}, 0),
    ('trn-09:9400', 'trn-09', '2026-05-31 08:00:00', '2026-05-31 08:00:00', '', 8, 1440, 0, 0, {}, 0)
;;
CREATE TABLE idlewatt.deliveries
(
    At DateTime64(6, 'UTC'), x_Source String, Format String, Version String, Status String, Message String, Rows UInt64, Files Array(String), x_Delivery String
)
ENGINE = MergeTree ORDER BY At
;;
INSERT INTO idlewatt.deliveries VALUES
    ('2026-05-31 06:00:11', 'aws-payer', 'aws-cur2', '20260531T055900Z', 'live', '', 6702, ['cur2-00001.snappy.parquet'], 'd3'),
    ('2026-05-30 06:00:09', 'aws-payer', 'aws-cur2', '20260530T055900Z', 'refused', 'cur2.csv row 17, lineItem/UnblendedCost: "1,5" is no amount', 0, ['cur2.csv'], 'd2'),
    ('2026-05-24 03:10:00', 'vast', 'vast', '1', 'live', '', 69, ['charges <may>.json'], 'd1')
;;
CREATE TABLE idlewatt.running
(
    x_Source String, Provider String, Account String, RegionId String, ResourceId String, ResourceName String, ResourceType String, x_InstanceType String,
    x_GpuModel String, x_GpuCount Nullable(Decimal(38, 18)), x_PricingModel String, RunStart DateTime64(3, 'UTC'), SeenUntil DateTime64(3, 'UTC'),
    CostPerHour Nullable(Decimal(38, 18)), RateSource String, BillingCurrency String, CostSoFar Nullable(Decimal(38, 18)), Hosts Array(String)
)
ENGINE = MergeTree ORDER BY ResourceId
;;
INSERT INTO idlewatt.running VALUES
    ('rp', 'runpod', '', 'US-KS-2', 'pod-a1', 'finetune-<7>', 'machine', 'H100', 'H100', 2, 'secure', '2026-05-30 18:00:00', '2026-05-31 09:25:00', 5.38, 'provider', 'USD', 82.94, ['pod-a1']),
    ('aws', 'aws', '210987654321', 'us-east-1', 'i-0abc', '', 'machine', 'p9.48xlarge', '', NULL, 'on_demand', '2026-05-31 07:00:00', '2026-05-31 09:25:00', NULL, '', '', NULL, ['i-0abc', 'ip-10-0-1-5.ec2.internal', 'trn-07', '10.0.1.5']),
    ('old', 'vast', '', '', '4711', 'forgotten', 'machine', '', 'RTX 4090', 1, 'marketplace', '2026-05-01 07:00:00', '2026-05-12 07:00:00', 0.4, 'provider', 'USD', 105.6, ['4711'])
;;
CREATE TABLE idlewatt.wallets
(
    x_Source String, Provider String, Account String, At DateTime64(3, 'UTC'), Balance Decimal(38, 18), BillingCurrency String,
    SpendPerHour Nullable(Decimal(38, 18)), SpendSource String, SpendLimit Nullable(Decimal(38, 18)), ExpectedEnd Nullable(DateTime64(3, 'UTC'))
)
ENGINE = MergeTree ORDER BY x_Source
;;
INSERT INTO idlewatt.wallets VALUES
    ('rp', 'runpod', '', '2026-05-31 09:25:00', 129.12, 'USD', 5.38, 'provider', 80, '2026-06-01 09:25:00'),
    ('vast', 'vast', 'team-1', '2026-05-31 09:20:00', 12.5, 'USD', NULL, '', NULL, NULL)
;;
CREATE TABLE idlewatt.estimates
(
    x_Source String, Provider String, BillingCurrency String, ChargePeriodStart DateTime64(3, 'UTC'), Cost Decimal(38, 18), CostLow Decimal(38, 18), CostHigh Decimal(38, 18), Status String
)
ENGINE = MergeTree ORDER BY ChargePeriodStart
;;
INSERT INTO idlewatt.estimates VALUES
    ('lam', 'lambda', 'USD', '2026-05-30 10:00:00', 35.92, 35.92, 47.25, 'estimated'),
    ('lam', 'lambda', 'USD', '2026-05-30 09:00:00', 35.92, 30, 47.25, 'superseded'),
    ('lam', 'lambda', 'USD', '2026-06-01 10:00:00', 35.92, 35.92, 47.25, 'estimated')
