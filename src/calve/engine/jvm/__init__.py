"""What starts the driver's JVM: Java, its jars, its settings, its process."""
