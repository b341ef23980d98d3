"""Part of `echo`: how a sound that breaks off goes on."""
