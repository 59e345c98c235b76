from tracer_spark.cli import main

main()
