package replay

// WithDefaults is for tests of the options that a command makes.
var WithDefaults = Options.withDefaults
