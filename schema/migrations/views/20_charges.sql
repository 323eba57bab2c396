-- Which load each scope shows: the newest by the provider's version, never by arrival.
CREATE OR REPLACE VIEW idlewatt_store.live_loads AS
SELECT Scope, argMax(Load, (Era, Version, ContentHash)) AS Load
FROM idlewatt_store.commits GROUP BY Scope HAVING Load != 0
;;
CREATE OR REPLACE VIEW idlewatt.charges DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT c.* EXCEPT (x_TagSet, x_PairCash, x_BilledResidue, x_EffectiveResidue, x_BadTags),
    multiIf(isNotNull(c.InvoiceId), 'invoiced', c.x_Dataset = 'estimate', 'estimated', 'billed_open') AS x_ChargeStatus,
    d.Project AS x_Project, d.Team AS x_Team, d.Environment AS x_Environment, d.TagSource AS x_TagSource
FROM idlewatt_store.charges AS c
LEFT ANY JOIN (SELECT * FROM idlewatt_store.tag_dims FINAL) AS d ON d.TagSet = c.x_TagSet
WHERE c.x_Load IN (SELECT Load FROM idlewatt_store.live_loads)
;;
-- The same rows for tools that expect FOCUS 1.2 names.
CREATE OR REPLACE VIEW idlewatt.charges_focus_1_2 DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT * EXCEPT (HostProviderName, ServiceProviderName, InvoiceDetailId, AllocatedMethodId, AllocatedMethodDetails,
        AllocatedResourceId, AllocatedResourceName, AllocatedTags, ContractApplied, CommitmentProgramEligibilityDetails,
        x_ProviderName, x_PublisherName),
    coalesce(x_ProviderName, ServiceProviderName, HostProviderName) AS ProviderName,
    coalesce(x_PublisherName, ServiceProviderName) AS PublisherName
FROM idlewatt.charges
;;
CREATE OR REPLACE VIEW idlewatt.deliveries DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT At, Source AS x_Source, Format, Version,
    -- What went live and shows nowhere any more was replaced.
    if(Status = 'live' AND NOT hasAny(Loads, (SELECT groupArray(Load) FROM idlewatt_store.live_loads)), 'replaced', Status) AS Status, Message, Rows, BilledCost, RoundedRows, Defects, Scopes, Loads,
    Objects.Name AS Files, Seconds, Delivery AS x_Delivery
FROM idlewatt_store.delivery_log ORDER BY At
;;
CREATE OR REPLACE VIEW idlewatt.invoices DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT * EXCEPT (x_Event) FROM idlewatt_store.invoices FINAL
;;
-- Charges of running GPU machines: what attribution splits. Unused reservations, purchases
-- and licences are not machines, and serverless workers are paid for what they do.
CREATE OR REPLACE VIEW idlewatt_store.gpu_charges AS
SELECT * FROM idlewatt_store.charges
WHERE x_Load IN (SELECT Load FROM idlewatt_store.live_loads)
    AND x_GpuHours > 0 AND isNotNull(ResourceId) AND ChargeCategory = 'Usage' AND ifNull(CapacityReservationStatus, '') != 'Unused'
    AND ifNull(x_PricingModel, '') != 'serverless'
