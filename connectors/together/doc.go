// Package together reads the billing usage of Together AI: cost-annotated line items by day, of
// a whole organisation.
//
// The API is a beta that Together enables per organisation; product names are display names
// and may change, so no GPU hours are read out of them. Facts are from docs.together.ai,
// reference/billing-usage. Nothing here was tried with a live account.
package together
