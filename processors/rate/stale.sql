-- Which (source, day) shows other estimates than it should.
WITH
{{template "shown"}}
SELECT if(w.Scope != '', w.Scope, l.Scope) AS Scope, if(w.Scope != '', w.Source, l.Source) AS Source, if(w.Scope != '', w.Day, l.Day) AS Day,
    if(w.Scope != '', toString(w.Hash), '') AS Hash
FROM (SELECT Scope, any(c.Source) AS Source, any(c.Day) AS Day, sum(sipHash64(toString(tuple(*)))) AS Hash FROM charge AS c GROUP BY Scope) AS w
FULL OUTER JOIN
(
    SELECT Scope, toString(any(c.Source)) AS Source, toDate(argMax(c.PeriodStart, c.Version)) AS Day, argMax(c.Load, c.Version) AS Load, argMax(c.ContentHash, c.Version) AS Hash
    FROM idlewatt_store.commits AS c WHERE Dataset = 'estimate' GROUP BY Scope
) AS l ON l.Scope = w.Scope
WHERE w.Scope != '' AND toString(w.Hash) != l.Hash OR w.Scope = '' AND l.Load != 0 AND l.Day >= toDate({from: DateTime64(3, 'UTC')})
ORDER BY Day, Scope
