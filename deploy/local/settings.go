package local

// PinnedSettings returns a fresh copy of the settings that go on every connection, to a local or an external
// server alike, because their defaults differ between ClickHouse 25.8 and 26.7 or are not what money wants.
func PinnedSettings() map[string]any {
	return map[string]any{
		// Inserts: written when acknowledged, and never dropped for looking like an earlier one.
		"async_insert":          0,
		"wait_for_async_insert": 1,
		"insert_deduplicate":    0,
		"deduplicate_blocks_in_dependent_materialized_views": 0,

		// Reading files: a null in a required column is an error, a date has one meaning.
		"input_format_null_as_default":             0,
		"date_time_input_format":                   "basic",
		"input_format_defaults_for_omitted_fields": 1,
		"cast_string_to_date_time_mode":            "basic",
		"session_timezone":                         "UTC",

		// Computing: overflow is an error, an unmatched join gives the type's default.
		"decimal_check_overflow": 1,
		"join_use_nulls":         0,

		// Writing: money leaves as text with its digits.
		"output_format_json_quote_decimals":       1,
		"output_format_decimal_trailing_zeros":    0,
		"output_format_json_quote_64bit_integers": 0,
	}
}
