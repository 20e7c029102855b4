package rules_test

import (
	"fmt"

	"github.com/agentx/agentx/convert/rules"
)

// Rules with a word that does not exist are refused before they reach a key.
func ExampleRules_Validate() {
	r := rules.Default()
	r.LengthRule = "banana"
	fmt.Println(r.Validate())
	// Output: length_rule "banana": want one of repaired, upstream
}
