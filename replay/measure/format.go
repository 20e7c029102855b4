package measure

// FormatSeconds formats a time as the summary's table does, such as 28.1 ms; - when it is missing.
func FormatSeconds(n Number) string { return seconds(n) }

// FormatShare formats a share as a percentage, such as 93.4 %.
func FormatShare(n Number) string { return percent(n) }

// FormatQuantity formats a count or a rate with three or four digits and k, M or G; - when it is missing.
func FormatQuantity(n Number) string { return quantity(n) }
