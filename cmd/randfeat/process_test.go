package main

import "os"

// asCommand makes the test binary behave as the command, for what needs a process of its own.
const asCommand = "RANDFEAT_TEST_AS_COMMAND"

func init() {
	if os.Getenv(asCommand) != "" {
		os.Unsetenv(asCommand)
		main()
	}
}
