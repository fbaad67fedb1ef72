"""The exact sums of the kernel on other machines than the processor, bit for bit."""
