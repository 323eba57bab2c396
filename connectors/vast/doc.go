// Package vast reads Vast.ai: charges per contract and day, contracts that run or only keep a
// disk, utilisation, market prices and the prepaid balance.
//
// Here lives what Vast.ai's answers mean: which rows are money spent, how an item becomes a
// charge line, when a contract runs. Cash that goes in or out (invoices, deposits, transfers)
// is never a cost and is not asked for. Estimating today's cost is processors/rate's matter.
// Facts are from vast-ai/docs@c6246226 (api-reference/openapi/yaml, guides) and
// vast-ai/vast-cli@55679830, unless a comment says otherwise.
package vast
