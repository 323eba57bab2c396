// Package lambda follows Lambda (lambda.ai): which machines run and at what price, file
// systems and how much is in them, and the list prices.
//
// Lambda has no billing API. What lives here is the evidence that cost is computed from: runs
// between the moments that polls and the audit log know. What a run costs is
// processors/rate's matter, and invoices come in by `import --format invoice`. Facts are from
// Lambda's OpenAPI document 1.10.0 and docs.lambda.ai/public-cloud/billing, unless a comment
// says otherwise.
package lambda
