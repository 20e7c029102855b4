package meet_test

import (
	"fmt"

	"github.com/agentx/agentx/replay/meet"
)

// Torchrun and Slurm tell the processes that they start where the first one runs. Torch's store has the port itself.
func ExampleAddressOfEnvironment() {
	environment := map[string]string{"RANK": "1", "MASTER_ADDR": "node1", "MASTER_PORT": "29500"}
	address, err := meet.AddressOfEnvironment(func(name string) (string, bool) {
		value, ok := environment[name]
		return value, ok
	})
	fmt.Println(address, err)
	// Output: node1:29501 <nil>
}
