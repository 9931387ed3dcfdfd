//go:build !linux

package cli

import "os"

func leadsNowhere(*os.File) bool { return false }
