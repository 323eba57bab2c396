package local

// PinnedSettings returns a fresh copy of the settings that go on every connection to a server of this version,
// local or external, because their defaults differ between ClickHouse 25.8 and 26.7 or are not what money wants.
// A server refuses a setting it does not know, so the version counts; "" stands for the oldest we support, 25.8.
func PinnedSettings(version string) map[string]any {
	settings := map[string]any{
		// Inserts: written when acknowledged, and never dropped for looking like an earlier one.
		"async_insert":          0,
		"wait_for_async_insert": 1,
		"insert_deduplicate":    0,
		"deduplicate_blocks_in_dependent_materialized_views": 0,

		// Reading files: a null in a required column is an error, a date has one meaning and does not wrap,
		// a double is the closest one.
		"input_format_null_as_default":             0,
		"input_format_defaults_for_omitted_fields": 1,
		"date_time_input_format":                   "basic",
		"cast_string_to_date_time_mode":            "basic",
		"date_time_overflow_behavior":              "throw",
		"precise_float_parsing":                    1,
		"session_timezone":                         "UTC",

		// Computing: overflow is an error, an unmatched join gives the type's default, types that do not fit
		// together are an error and no Variant.
		"decimal_check_overflow":     1,
		"join_use_nulls":             0,
		"use_variant_as_common_type": 0,

		// Writing: money leaves as text with its digits.
		"output_format_json_quote_decimals":       1,
		"output_format_json_quote_64bit_integers": 0,
		"output_format_decimal_trailing_zeros":    0,
	}
	if version == "" {
		return settings
	}
	if !olderVersion(version, "26.2") {
		settings["deduplicate_insert"] = "disable" // from 26.2 on it overrides insert_deduplicate
	}
	if !olderVersion(version, "26.4") {
		settings["input_format_column_name_matching_mode"] = "match_case"
	}
	return settings
}

// engineSettings are the pinned settings of the local engine and what its clickhouse-local mode sets
// differently from a server.
func engineSettings(version string) map[string]any {
	settings := PinnedSettings(version)
	settings["implicit_select"] = 0
	settings["storage_file_read_method"] = "pread" // mmap crashes the engine when a file is cut short
	return settings
}
